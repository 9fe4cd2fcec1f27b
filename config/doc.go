// Package config turns manifests, as docs/reference/configuration.md describes them, into a Config.
//
// It takes bytes and returns values. It opens no file, and knows no clock, cluster or expression
// language. Reading is strict: anything but a documented field of a known kind, of the documented
// type and within its bounds, is a mistake. [Parse] reports every mistake of every file at once,
// each at its line and column. It fills in defaults, so that no user of a Config repeats them.
//
// Text in another language that is compiled elsewhere, as expressions, becomes a [Text], which
// knows where in the file each byte of its value stands. Whoever compiles it adds mistakes to the
// same report.
//
// Input may be hostile. A file has at most 1 MiB and 64 levels of nesting, is UTF-8, and has no
// anchors, aliases, merge keys or tags, so the size of its files bounds the size of a Config. No
// input makes Parse panic.
package config
