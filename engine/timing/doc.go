// Package timing keeps what the rules about time remember. It is pure: it knows no clock and starts
// no timer. Its users ask what is due, and pass the time.
package timing
