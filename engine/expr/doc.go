// Package expr compiles and evaluates the expressions of rules and indexes.
//
// The language is expr-lang's, whose lexer and parser read the text. This package decides what an
// expression means, because Kubernetes objects need more than expr-lang's own machine gives. Absent
// fields are nil, at any depth and in every function. Integers are int64 and never wrap. No
// expression runs away: its text, its nesting, its steps and its memory are bounded.
// docs/reference/expressions.md describes the whole language.
//
// Compile turns the syntax tree into closures. On the way it follows every value back to where an
// object has it. That gives [Program.Paths]: a tree of those paths alone evaluates like the whole
// object. It also gives [Program.Requires]: conditions of an object without which evaluation is not
// needed.
//
// Package value has the values, operators and functions. Both are pure: they know no clock, file,
// environment or schema, and the time is an argument.
package expr
