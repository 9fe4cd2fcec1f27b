// Package install makes the program that imports it able to start handlers with package shim.
//
//	import _ "github.com/informd/informd/plugins/host/shim/install"
//
// A shim is this program, executed again. The import lets such a process become the shim during
// initialization, before the packages that take time and memory are initialized. Calling
// [shim.TakeOver] in main does the same, but every shim then pays for the whole program's
// initialization. Only main packages and tests that start handlers import this package.
package install

import "github.com/informd/informd/plugins/host/shim"

func init() { shim.TakeOver() }
