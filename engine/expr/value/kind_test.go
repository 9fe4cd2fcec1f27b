package value_test

import (
	"testing"

	"github.com/informd/informd/engine/expr/value"
)

// kinds has a value of each kind, with the kind's name and what type calls it.
var kinds = []struct {
	v          any
	some, name string
}{
	{nil, "nil", "nil"},
	{true, "a bool", "bool"},
	{int64(1), "an int", "int"},
	{1.5, "a float", "float"},
	{"", "a string", "string"},
	{list{}, "a list", "array"},
	{dict{}, "a map", "map"},
	{at("2026-01-02T03:04:05Z"), "a time", "time"},
	{hour, "a duration", "duration"},
	{q("1"), "a quantity", "quantity"},
}

func TestKinds(t *testing.T) {
	for _, kind := range kinds {
		if got := value.Some(kind.v); got != kind.some {
			t.Errorf("%v is %s, want %s", kind.v, got, kind.some)
		}
		if got := call("type", kind.v).value; got != kind.name {
			t.Errorf("the type of %s is %s, want %s", kind.some, got, kind.name)
		}
		if got, want := value.WrongArgument("f", kind.v), `"f" cannot take `+kind.some; got.Error() != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := value.Some(struct{}{}); got != "an unknown" {
		t.Errorf("what is no value is %s", got)
	}
}
