// Informd stands for a static program.
package main

func main() {}
