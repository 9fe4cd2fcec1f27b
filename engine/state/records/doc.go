// Package records encodes what the state keeps as keys and values: objects, deliveries, dead
// letters, rules and what else the store has. It is pure: an append function makes a record. A read
// function returns what the record says, or an error, whatever the bytes are.
//
// keys.go lists the keys. Each value begins with [Version]. Objects are packed with dictionaries,
// and a log holds an object's text once. The caller keeps book of both: see [References].
//
// No text of a Secret becomes part of a record, if the caller says that the object is one.
package records
