package value

import (
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// quantity is a Kubernetes quantity. Some methods of resource.Quantity change it, so they get a
// copy.
type quantity struct{ q resource.Quantity }

func (q *quantity) compare(other *quantity) int {
	x, y := q.q, other.q // Cmp may change its operands
	return x.Cmp(y)
}

func (q *quantity) plus(other *quantity) *quantity {
	sum := q.q.DeepCopy()
	sum.Add(other.q.DeepCopy())
	return &quantity{sum}
}

func (q *quantity) minus(other *quantity) *quantity {
	difference := q.q.DeepCopy()
	difference.Sub(other.q.DeepCopy())
	return &quantity{difference}
}

func (q *quantity) String() string {
	canonical := q.q.DeepCopy() // String stores its result in the quantity
	return canonical.String()
}

// readResult says how reading a value as another kind went.
type readResult uint8

const (
	read       readResult = iota
	unreadable            // a string or number that is not one
	wrongKind             // a kind that cannot be read
)

// maxReadable bounds strings that are read as a quantity, time or duration, in bytes.
const maxReadable = 64

func toQuantity(v any) (*quantity, readResult) {
	switch v := v.(type) {
	case *quantity:
		return v, read
	case int64:
		return &quantity{*resource.NewQuantity(v, resource.DecimalSI)}, read
	case float64:
		return parseQuantity(strconv.FormatFloat(v, 'f', -1, 64))
	case string:
		return parseQuantity(v)
	}
	return nil, wrongKind
}

// parseQuantity refuses exponents that no quantity can hold, before resource.ParseQuantity writes
// out their zeros.
func parseQuantity(s string) (*quantity, readResult) {
	const maxExponent = 2 // digits
	if len(s) > maxReadable {
		return nil, unreadable
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		if digits := strings.TrimLeft(s[i+1:], "+-0"); len(digits) > maxExponent {
			return nil, unreadable
		}
	}
	q, err := resource.ParseQuantity(s)
	if err != nil {
		return nil, unreadable
	}
	return &quantity{q}, read
}

func toTime(v any) (time.Time, readResult) {
	switch v := v.(type) {
	case time.Time:
		return v, read
	case string:
		if len(v) > maxReadable {
			return time.Time{}, unreadable
		}
		// in UTC, because time.Parse looks at the machine's own zone
		t, err := time.ParseInLocation(time.RFC3339, v, time.UTC)
		if err != nil {
			return time.Time{}, unreadable
		}
		return t.UTC(), read
	}
	return time.Time{}, wrongKind
}

func toDuration(v any) (time.Duration, readResult) {
	switch v := v.(type) {
	case time.Duration:
		return v, read
	case string:
		if len(v) > maxReadable {
			return 0, unreadable
		}
		d, err := time.ParseDuration(v)
		if err != nil {
			return 0, unreadable
		}
		return d, read
	}
	return 0, wrongKind
}

// reader makes a function that reads its argument.
func reader[T any](name string, to func(any) (T, readResult)) func(*Meter, []any) (any, error) {
	return func(_ *Meter, args []any) (any, error) {
		v, result := to(args[0])
		switch result {
		case wrongKind:
			return nil, WrongArgument(name, args[0])
		case unreadable:
			return nil, Errorf("%q cannot parse its argument", name)
		}
		return v, nil
	}
}

// Methods are the methods of times, which are in UTC, and of durations.
var Methods = map[string]func(v any) (any, bool){
	"Year":         ofTime(func(t time.Time) any { return int64(t.Year()) }),
	"Month":        ofTime(func(t time.Time) any { return int64(t.Month()) }),
	"Day":          ofTime(func(t time.Time) any { return int64(t.Day()) }),
	"Hour":         ofTime(func(t time.Time) any { return int64(t.Hour()) }),
	"Minute":       ofTime(func(t time.Time) any { return int64(t.Minute()) }),
	"Second":       ofTime(func(t time.Time) any { return int64(t.Second()) }),
	"Weekday":      ofTime(func(t time.Time) any { return t.Weekday().String() }),
	"Unix":         ofTime(func(t time.Time) any { return t.Unix() }),
	"Hours":        ofDuration(func(d time.Duration) any { return d.Hours() }),
	"Minutes":      ofDuration(func(d time.Duration) any { return d.Minutes() }),
	"Seconds":      ofDuration(func(d time.Duration) any { return d.Seconds() }),
	"Milliseconds": ofDuration(func(d time.Duration) any { return d.Milliseconds() }),
}

func ofTime(get func(time.Time) any) func(any) (any, bool) {
	return func(v any) (any, bool) {
		t, ok := v.(time.Time)
		return get(t.UTC()), ok
	}
}

func ofDuration(get func(time.Duration) any) func(any) (any, bool) {
	return func(v any) (any, bool) {
		d, ok := v.(time.Duration)
		return get(d), ok
	}
}

func typeFunction(_ *Meter, args []any) (any, error) { return typeOf(args[0]), nil }

var unitFunctions = map[string]Function{
	"quantity": {Min: 1, Max: 1, Call: reader("quantity", toQuantity)},
	"time":     {Min: 1, Max: 1, Call: reader("time", toTime)},
	"duration": {Min: 1, Max: 1, Call: reader("duration", toDuration)},
	"type":     {Min: 1, Max: 1, takesNil: true, Call: typeFunction},
	"notAfter": {Min: 1, Max: 1, Call: notAfter},
}
