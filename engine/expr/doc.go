// Package expr compiles and evaluates the expressions of rules and indexes.
//
// The language is expr-lang's: its lexer and its parser read the text. What an expression means is decided here, because
// Kubernetes objects need what expr-lang's own machine does not give: fields that are absent are nil at any depth and in
// every function, integers are int64 and never wrap, and no expression runs away. An expression may be 16 KiB long, nest
// 200 deep, take 100,000 steps and allocate 8 MiB; see [maxText], [maxNesting], [MaxSteps] and [MaxMemory]. The whole
// language is described in docs/reference/expressions.md.
//
// Compile turns the syntax tree into closures, and on the way follows every value back to the place in the object that it
// was read from. That makes [Program.Paths]: evaluating on a tree of those paths alone gives the same as evaluating on
// the whole object; and [Program.Requires]: what must hold of an object, or else a condition need not be evaluated.
//
// A value is nil, bool, int64, float64, string, []any, map[string]any, time.Time, time.Duration or a quantity; nothing
// else occurs. Values are never changed once made, so they may be shared between evaluations.
//
// The package is pure: it knows no clock, file, environment or schema, and the time is an argument.
package expr
