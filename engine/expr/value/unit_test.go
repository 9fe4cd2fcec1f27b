package value_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/informd/informd/engine/expr/value"
)

func none(name string) value.Error { return value.Error(`"` + name + `" cannot parse its argument`) }

func TestUnits(t *testing.T) {
	check(t, []test{
		{"a quantity of a quantity", call("quantity", q("1Gi")), quantity("1Gi")},
		{"quantities of numbers", each(call("quantity", 2), call("quantity", -3), call("quantity", 0.5), call("quantity", 1e18), call("quantity", 1e-10), call("quantity", math.MaxInt64)), list{quantity("2"), quantity("-3"), quantity("500m"), quantity("1E"), quantity("1n"), quantity("9223372036854775807")}},
		{"a quantity that is none", each(call("quantity", "Pod"), call("quantity", "10 GB"), call("quantity", ""), call("quantity", "1KB"), call("quantity", math.Inf(1))), list{none("quantity"), none("quantity"), none("quantity"), none("quantity"), none("quantity")}},
		{"a quantity of many zeros", each(call("quantity", 1e300), call("quantity", "1e999999999"), call("quantity", "1e-999999999"), call("quantity", "1E+0004294967295"), call("quantity", "1e100")), list{none("quantity"), none("quantity"), none("quantity"), none("quantity"), none("quantity")}},
		{"a quantity of the wrong kind", each(call("quantity", true), call("quantity", list{}), call("quantity", hour)), list{wrong("quantity", "a bool"), wrong("quantity", "a list"), wrong("quantity", "a duration")}},

		{"times are in UTC", each(call("string", at("2026-01-02T03:04:05.5+01:00")), call("time", at("2026-01-02T03:04:05Z"))), list{"2026-01-02T02:04:05.5Z", at("2026-01-02T03:04:05Z")}},
		{"a time that is none", each(call("time", "Pod"), call("time", "2026-01-02"), call("time", "2026-01-02 03:04:05Z"), call("time", "2026-02-30T00:00:00Z"), call("time", "")), list{none("time"), none("time"), none("time"), none("time"), none("time")}},
		{"a time of the wrong kind", each(call("time", 0), call("time", hour)), list{wrong("time", "an int"), wrong("time", "a duration")}},

		{"durations", each(call("duration", "90m"), call("duration", "-1.5h"), call("duration", "0"), call("duration", hour), call("duration", "-2562047h47m16.854775808s")), list{90 * time.Minute, -90 * time.Minute, time.Duration(0), hour, time.Duration(math.MinInt64)}},
		{"a duration that is none", each(call("duration", "Pod"), call("duration", "1d"), call("duration", "5"), call("duration", ""), call("duration", "2562047h47m16.854775808s")), list{none("duration"), none("duration"), none("duration"), none("duration"), none("duration")}},
		{"a duration of the wrong kind", each(call("duration", 5), call("duration", q("1"))), list{wrong("duration", "an int"), wrong("duration", "a quantity")}},

		{"strings of 64 bytes are read", each(call("quantity", strings.Repeat("0", 63)+"7"), call("time", "2026-01-02T03:04:05."+strings.Repeat("0", 43)+"Z"), call("duration", strings.Repeat("0", 62)+"7s")), list{quantity(strings.Repeat("0", 63) + "7"), at("2026-01-02T03:04:05Z"), 7 * time.Second}},
		{"longer ones are not", each(call("quantity", strings.Repeat("0", 64)+"7"), call("time", "2026-01-02T03:04:05."+strings.Repeat("0", 44)+"Z"), call("duration", strings.Repeat("0", 63)+"7s")), list{none("quantity"), none("time"), none("duration")}},
	})
}

func TestMethods(t *testing.T) {
	friday, long := at("2026-01-02T04:34:05.9+01:30"), 90*time.Minute+1500*time.Millisecond
	all := map[string]bool{}
	for _, test := range []struct {
		v    any
		name string
		want any
	}{
		{friday, "Year", 2026}, {friday, "Month", 1}, {friday, "Day", 2}, {friday, "Hour", 3}, {friday, "Minute", 4}, {friday, "Second", 5},
		{friday, "Weekday", "Friday"}, {friday, "Unix", 1767323045},
		{long, "Hours", 1.5 + 1.5/3600}, {long, "Minutes", 90.025}, {long, "Seconds", 5401.5}, {long, "Milliseconds", 5401500},
	} {
		all[test.name] = true
		for _, kind := range kinds {
			_, has := value.Methods[test.name](kind.v)
			if want := value.Some(kind.v) == value.Some(test.v); has != want {
				t.Errorf("%s has %s: %v", kind.some, test.name, has)
			}
		}
		if got := method(test.v, test.name).value; got != proper(test.want) {
			t.Errorf("%s of %v is %v, want %v", test.name, test.v, got, test.want)
		}
	}
	for name := range value.Methods {
		if !all[name] {
			t.Errorf("no test calls %s", name)
		}
	}
}

// quantities are texts that are quantities, and some that are not.
var quantities = []string{
	"0", "1", "-1", "+1", "250m", "1.5", ".5", "5.", "1k", "1K", "1Ki", "1Mi", "1Gi", "1024Mi", "1Ti", "1Pi", "1Ei", "100Ei", "1E", "1E3", "1e3", "1e+3", "1e-3", "12E-9", "1e99", "1e-99", "-1e99",
	"1n", "1u", "0.1n", "0.0000000001", "1.0Gi", "0.5Mi", "1.5Ki", "-1.5Gi", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "100000000000000000000", "1e18", "1e19", "1m", "999m", "1000m", "1001m", "007",
	"", " 1", "1 ", "1 Gi", "1GB", "1gi", "1mi", "1KI", "Gi", "m", "-", "+", ".", "1..5", "1e", "1eE3", "1e3.5", "1e1Ki", "--1", "0x10", "1_000", "1,5", "NaN", "inf", "１", "1e3m", "1Ee3",
}

// checkQuantity compares what the function quantity makes of text with what Kubernetes makes of it.
// Exponents of more than two digits are refused here.
func checkQuantity(t *testing.T, text string) {
	t.Helper()
	want, err := resource.ParseQuantity(text)
	got := call("quantity", text)
	if _, failed := got.value.(error); failed {
		digits := ""
		if i := strings.IndexAny(text, "eE"); i >= 0 {
			digits = strings.TrimLeft(text[i+1:], "+-0")
		}
		if err == nil && len(text) <= 64 && len(digits) <= 2 {
			t.Errorf("%q is the quantity %v in Kubernetes, but here: %v", text, &want, got.value)
		}
		return
	}
	if err != nil {
		t.Errorf("%q is a quantity here, %v, but not in Kubernetes: %v", text, got.value, err)
	} else if fmt.Sprint(got.value) != want.String() {
		t.Errorf("%q is %v here, but in Kubernetes %v", text, got.value, &want)
	}
}

func TestQuantitiesOfKubernetes(t *testing.T) {
	for _, text := range quantities {
		checkQuantity(t, text)
		a, err := resource.ParseQuantity(text)
		if err != nil {
			continue
		}
		for _, other := range quantities {
			b, err := resource.ParseQuantity(other)
			if err != nil {
				continue
			}
			sum, difference := a.DeepCopy(), a.DeepCopy()
			sum.Add(b)
			difference.Sub(b)
			x, y := q(text), q(other)
			for operator, want := range map[string]resource.Quantity{"+": sum, "-": difference} {
				if got := binary(x, operator, y); fmt.Sprint(got.value) != want.String() {
					t.Errorf("%s %s %s is %v here, but in Kubernetes %v", text, operator, other, got.value, &want)
				}
			}
			c := a.Cmp(b)
			for operator, want := range map[string]bool{"<": c < 0, "<=": c <= 0, ">": c > 0, ">=": c >= 0, "==": c == 0, "!=": c != 0} {
				if got := binary(x, operator, y).value; got != want {
					t.Errorf("%s %s %s is %v here", text, operator, other, got)
				}
				if got := binary(x, operator, other).value; got != want {
					t.Errorf("%s %s the string %s is %v here", text, operator, other, got)
				}
			}
		}
	}
}

// Numbers are the quantities that a manifest with that number holds.
func TestQuantitiesOfNumbers(t *testing.T) {
	for _, v := range []any{0, 1, -1, math.MaxInt64, math.MinInt64, 0.5, -0.25, 1.5, 1e3, 1e15, 1e-9, 1e-12, 123456.789, 1 << 53} {
		number, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var want resource.Quantity
		if err := json.Unmarshal(number, &want); err != nil {
			t.Fatalf("%s: %v", number, err)
		}
		if !want.Equal(resource.MustParse(fmt.Sprint(q(v)))) {
			t.Errorf("%s is %v here, but in Kubernetes %v", number, q(v), &want)
		}
	}
}

func FuzzQuantity(f *testing.F) {
	for _, text := range quantities {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) <= 100 { // Kubernetes' own parser takes long for long exponents
			if i := strings.IndexAny(text, "eE"); i < 0 || len(text)-i < 6 {
				checkQuantity(t, text)
			}
		}
	})
}

var times = []string{
	"2026-01-02T03:04:05Z", "2026-01-02T03:04:05+01:00", "2026-01-02T03:04:05.5Z", "2026-01-02T03:04:05.123456Z", "2026-01-02T03:04:05.123456789-07:30", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2024-02-29T00:00:00Z",
	"2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-02T24:00:00Z", "2026-01-02T03:04:60Z", "2026-01-02T03:04:05", "2026-01-02", "2026-01-02t03:04:05z", "2026-01-02T3:04:05Z", "2026-01-02T03:04:05,5Z", "2026-01-02T03:04:05+24:00", "",
}

// checkTime compares what the function time makes of text with what a timestamp in Kubernetes makes
// of it.
func checkTime(t *testing.T, text string) {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	var want metav1.Time
	err = json.Unmarshal(quoted, &want)
	got := call("time", text).value
	if _, failed := got.(error); failed != (err != nil) {
		if len(text) <= 64 {
			t.Errorf("%q gives %v here, but in Kubernetes %v", text, got, err)
		}
		return
	}
	if err == nil && !want.Time.Equal(got.(time.Time)) {
		t.Errorf("%q is %v here, but in Kubernetes %v", text, got, want)
	}
	if err != nil || want.UTC().Year() < 0 || want.UTC().Year() > 9999 {
		return
	}
	// written without its fraction, it is what Kubernetes writes
	whole := call("string", want.UTC().Truncate(time.Second)).value
	if out, err := json.Marshal(want); err != nil || !want.IsZero() && string(out) != strconv.Quote(whole.(string)) {
		t.Errorf("%q becomes %v here, but in Kubernetes %s, %v", text, whole, out, err)
	}
}

func TestTimesOfKubernetes(t *testing.T) {
	for _, text := range times {
		checkTime(t, text)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	for _, stamp := range []any{metav1.NewTime(now), metav1.NewMicroTime(now)} { // as in an Event and a Lease
		quoted, err := json.Marshal(stamp)
		if err != nil {
			t.Fatal(err)
		}
		got := call("time", strings.Trim(string(quoted), `"`)).value
		if d, ok := binary(now, "-", got).value.(time.Duration); !ok || d < 0 || d >= time.Second {
			t.Errorf("%s becomes %v, want %v", quoted, got, now)
		}
	}
}

func FuzzTime(f *testing.F) {
	for _, text := range times {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if text != "" && strings.ToValidUTF8(text, "") == text {
			checkTime(t, text)
		}
	})
}

var durations = []string{
	"0", "0s", "1s", "90m", "1h30m", "-1h", "+1h", "1.5h", ".5s", "300ms", "1us", "1µs", "1ns", "0.1ns", "2562047h47m16.854775807s", "-2562047h47m16.854775808s", "1h1h", "100000h",
	"", "1", "1d", "1w", "1 h", "h", "-", "1h-1m", "2562047h47m16.854775808s", "1e3s", "∞", "PT1H", "1H",
}

// checkDuration compares what the function duration makes of text with what a metav1.Duration, as
// in a component's configuration, makes of it.
func checkDuration(t *testing.T, text string) {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	var want metav1.Duration
	err = json.Unmarshal(quoted, &want)
	got := call("duration", text).value
	if _, failed := got.(error); failed != (err != nil) {
		if len(text) <= 64 {
			t.Errorf("%q gives %v here, but in Kubernetes %v", text, got, err)
		}
		return
	}
	if err != nil {
		return
	}
	if got != want.Duration {
		t.Errorf("%q is %v here, but in Kubernetes %v", text, got, want)
	}
	if out, err := json.Marshal(want); err != nil || string(out) != strconv.Quote(call("string", got).value.(string)) {
		t.Errorf("%q becomes %v here, but in Kubernetes %s, %v", text, got, out, err)
	}
}

func TestDurationsOfKubernetes(t *testing.T) {
	for _, text := range durations {
		checkDuration(t, text)
	}
}

func FuzzDuration(f *testing.F) {
	for _, text := range durations {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ToValidUTF8(text, "") == text {
			checkDuration(t, text)
		}
	})
}
