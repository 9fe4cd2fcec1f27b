// Package config turns manifests, as design.md describes them, into a Config.
//
// It reads bytes and returns values: it opens no file, knows no clock, no cluster and no expression language. Reading
// is strict. Whatever is not a documented field of a known kind, of the documented type and within its bounds, is a
// mistake, and [Parse] reports every mistake of every file in one go, each at its line and column. Defaults are filled
// in, so that no user of a Config repeats them.
//
// Text that is written in another language and compiled elsewhere, as expressions, is handed on as [Text], which
// knows where in the file each byte of its value was written. Whoever compiles it adds mistakes of its own to the same
// report.
//
// Input may be hostile. A file has at most 1 MiB and 64 levels of nesting, is UTF-8 text, and has no anchors, aliases,
// merge keys or tags; so the size of a Config is bounded by the size of its files. No input makes Parse panic.
package config
