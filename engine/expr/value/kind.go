package value

import (
	"math"
	"time"
)

const (
	maxInt = math.MaxInt64
	minInt = math.MinInt64
)

// typeOf is the type function. It calls lists arrays, as expr-lang does.
func typeOf(v any) string {
	if isKind[[]any](v) {
		return "array"
	}
	return kindOf(v)
}

// kindOf returns the name of a value's kind.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "nil"
	case bool:
		return "bool"
	case int64:
		return "int"
	case float64:
		return "float"
	case string:
		return "string"
	case []any:
		return "list"
	case map[string]any:
		return "map"
	case time.Time:
		return "time"
	case time.Duration:
		return "duration"
	case *quantity:
		return "quantity"
	}
	return "unknown"
}

// Some returns a value's kind with its article, for errors.
func Some(v any) string {
	switch kind := kindOf(v); kind {
	case "nil":
		return kind
	case "int", "unknown":
		return "an " + kind
	default:
		return "a " + kind
	}
}

// Truth returns v as a condition: nil is false.
func Truth(v any) (bool, error) {
	switch v := v.(type) {
	case nil:
		return false, nil
	case bool:
		return v, nil
	}
	return false, Errorf("%s is not true or false", Some(v))
}
