// Package value has the operators and functions of expressions: what they do with values, and what
// that costs.
//
// A value is nil, bool, int64, float64, string, []any, map[string]any, time.Time, time.Duration or
// a quantity. Nothing else occurs. Nobody changes a value once it is made, so evaluations share
// them. Operators and functions take what they need from a [Meter] before they do any work, and
// treat nil as docs/reference/expressions.md says.
//
// The package knows no syntax: not where a value comes from, nor who calls.
package value
