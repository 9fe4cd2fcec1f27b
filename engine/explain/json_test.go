package explain

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"
	"time"
)

// Users read the JSON of an explanation: its members keep their names and their order.
func TestJSONStays(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]*Explanation{"empty": {}, "full": filled()} {
		got, err := json.MarshalIndent(x, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		file := "testdata/" + name + ".json"
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, '\n'); !bytes.Equal(got, want) {
			t.Errorf("%s is now:\n%s", file, got)
		}
	}
}

// filled returns an explanation in which each field is set.
func filled() *Explanation {
	x := new(Explanation)
	fill(reflect.ValueOf(x).Elem(), 3)
	return x
}

// fill sets a value, and what is in it down to a depth.
func fill(v reflect.Value, depth int) {
	switch {
	case !v.CanSet():
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)))
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`{"a":1}`))
	case v.Kind() == reflect.String:
		v.SetString("text")
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(1)
	case v.CanFloat():
		v.SetFloat(1.5)
	case v.Kind() == reflect.Pointer && depth > 0:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth-1)
	case v.Kind() == reflect.Slice && depth > 0:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth-1)
	case v.Type() == reflect.TypeFor[map[string]int]():
		v.Set(reflect.ValueOf(map[string]int{"text": 1}))
	case v.Kind() == reflect.Struct:
		for n := range v.NumField() {
			fill(v.Field(n), depth)
		}
	}
}
