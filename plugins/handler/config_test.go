package handler

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type common struct {
	Level string `json:"level"`
	Path  string `json:"path"` // hidden by that of settings
}

type retry struct {
	After time.Duration `json:"after"`
	Times int8          `json:"times"`
}

type even int

func (e *even) UnmarshalText(text []byte) error {
	*e = even(len(text))
	if len(text)%2 != 0 {
		return errors.New("must have an even number of letters")
	}
	return nil
}

type settings struct {
	common
	Path    string            `json:"path"`
	Timeout time.Duration     `json:"timeout"`
	Command []string          `json:"command"`
	Headers map[string]string `json:"headers,omitempty"`
	HMAC    *struct {
		SecretFile string `json:"secretFile"`
	} `json:"hmac"`
	Retries []retry         `json:"retries"`
	Raw     json.RawMessage `json:"raw"`
	Any     any             `json:"any"`
	Even    even            `json:"even"`
	Bytes   []byte          `json:"bytes"`
	Pair    [2]uint8        `json:"pair"`
	Ratio   float32         `json:"ratio"`
	On      *bool           `json:"on"`
	Start   time.Time       `json:"start"`
	Chan    chan int        `json:"chan"`
	Plain   string
	Hidden  string `json:"-"`
	private string

	_ struct{} `instead:"file: write path: name"`
}

const known = " (known: Plain, any, bytes, chan, command, even, headers, hmac, level, on, pair, path, ratio, raw, retries, start, timeout)"

func TestDecodeConfig(t *testing.T) {
	defaults := settings{Path: "/default", Timeout: time.Second, Command: []string{"x", "y"}, Headers: map[string]string{"Y": "1"}, private: "kept"}
	defaults.HMAC = &struct {
		SecretFile string `json:"secretFile"`
	}{"default"}
	got, err := DecodeConfig(json.RawMessage(`{"level":"info","timeout":"1m30s","command":["b"],"headers":{"X":""},"hmac":{"secretFile":"s"},
		"retries":[{"after":"1s","times":-128},{}],"raw":{"a":[null]},"any":[1,null],"even":"four","bytes":"AQI=","pair":[0,255],"ratio":1.5,
		"on":false,"start":"2026-01-01T00:00:00Z","Plain":""}`), defaults)
	if err != nil {
		t.Fatal(err)
	}
	off := false
	want := settings{
		common: common{Level: "info"}, Path: "/default", Timeout: 90 * time.Second, Command: []string{"b"}, Headers: map[string]string{"X": ""},
		Retries: []retry{{time.Second, -128}, {}}, Raw: json.RawMessage(`{"a":[null]}`), Any: []any{1.0, nil}, Even: 4, Bytes: []byte{1, 2},
		Pair: [2]uint8{0, 255}, Ratio: 1.5, On: &off, Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), private: "kept",
	}
	want.HMAC = &struct {
		SecretFile string `json:"secretFile"`
	}{"s"}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(settings{}, common{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if defaults.HMAC.SecretFile != "default" || defaults.Headers["Y"] != "1" || defaults.Command[0] != "x" {
		t.Errorf("the defaults have changed: %+v", defaults)
	}
	for _, nothing := range []string{"", " ", "null", "{}", `{"path":null,"hmac":null,"timeout":null,"retries":null}`} {
		got, err := DecodeConfig(json.RawMessage(nothing), defaults)
		if diff := cmp.Diff(defaults, got, cmp.AllowUnexported(settings{}, common{})); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got)\n%s", nothing, err, diff)
		}
	}
}

func TestDecodeConfigRefuses(t *testing.T) {
	for _, test := range []struct {
		give string
		want []string // the lines of the error
	}{
		{`[]`, []string{"config: must be a mapping, not a list"}},
		{`"x"`, []string{"config: must be a mapping, not a string"}},
		{`{"path":`, []string{"config: is not one JSON value: unexpected end of JSON input"}},
		{`{} {}`, []string{"config: is not one JSON value: invalid character '{' after top-level value"}},
		{`{"pth":"x"}`, []string{`unknown field "pth", did you mean "path"?` + known}},
		{`{"Path":"x"}`, []string{`unknown field "Path", did you mean "path"?` + known}},
		{`{"plain":"x"}`, []string{`unknown field "plain", did you mean "Plain"?` + known}},
		{`{"Hidden":"x"}`, []string{`unknown field "Hidden"` + known}},
		{`{"private":"x"}`, []string{`unknown field "private"` + known}},
		{`{"file":"x"}`, []string{`unknown field "file"; write path: name`}},
		{`{"hmac":{"secretfile":"x"}}`, []string{`hmac: unknown field "secretfile", did you mean "secretFile"? (known: secretFile)`}},
		{`{"retries":[{},{},{"after":5,"tims":1}]}`, []string{
			`retries[2].after: must be a duration such as "10s", not a number`,
			`retries[2]: unknown field "tims", did you mean "times"? (known: after, times)`,
		}},
		{`{"retries":[null,{"times":128},{"times":1.5},{"times":"1"}]}`, []string{
			"retries[0]: must be a mapping, not null",
			"retries[1].times: must be from -128 to 127",
			"retries[2].times: must be a whole number, not a number with a point or an exponent",
			"retries[3].times: must be a whole number, not a string",
		}},
		{`{"path":"a","path":"b","path":"c"}`, []string{"path: is there twice"}},
		{`{"raw":[{"a":1,"b":{"c":1,"c":1}}]}`, []string{"raw[0].b.c: is there twice"}},
		{`{"path":7}`, []string{"path: must be a string, not a number (put it in quotes)"}},
		{`{"timeout":"soon"}`, []string{`timeout: must be a duration such as "10s" or "1m30s"`}},
		{`{"command":"ls -l"}`, []string{"command: must be a list of strings, not a string"}},
		{`{"command":["a",true,null]}`, []string{
			"command[1]: must be a string, not a boolean",
			"command[2]: must be a string, not null",
		}},
		{`{"headers":{"":1}}`, []string{"headers.: must be a string, not a number (put it in quotes)"}},
		{`{"headers":{"B":[1],"A":{}}}`, []string{
			"headers.A: must be a string, not a mapping",
			"headers.B: must be a string, not a list",
		}},
		{`{"even":"odd"}`, []string{"even: must have an even number of letters"}},
		{`{"even":4}`, []string{"even: must be a string, not a number (put it in quotes)"}},
		{`{"bytes":"?"}`, []string{"bytes: must be text in base64, not other text"}},
		{`{"pair":[1]}`, []string{"pair: must have 2 items, not 1"}},
		{`{"pair":[-1,256]}`, []string{"pair[0]: must be from 0 to 255", "pair[1]: must be from 0 to 255"}},
		{`{"ratio":1e300}`, []string{"ratio: must be a number, not one so large"}},
		{`{"on":"yes"}`, []string{"on: must be true or false, not a string"}},
		{`{"chan":1}`, []string{"chan: the handler's field has the type chan int, which no config can have"}},
		{`{"command":{},"path":[],"zz":1}`, []string{ // several mistakes at once
			"command: must be a list of strings, not a mapping",
			"path: must be a string, not a list",
			`unknown field "zz"` + known,
		}},
	} {
		_, err := DecodeConfig(json.RawMessage(test.give), settings{})
		if err == nil {
			t.Errorf("%s: accepted", test.give)
			continue
		}
		if diff := cmp.Diff(test.want, strings.Split(err.Error(), "\n")); diff != "" {
			t.Errorf("%s (-want +got)\n%s", test.give, diff)
		}
		all, _ := err.(interface{ Unwrap() []error })
		if all == nil || len(all.Unwrap()) != len(test.want) {
			t.Errorf("%s: %v is not %d errors", test.give, err, len(test.want))
		}
	}
}

// The largest and the smallest numbers are what the error says.
func TestDecodeConfigBounds(t *testing.T) {
	type numbers struct {
		A int64
		B uint64
		C int
	}
	_, err := DecodeConfig(json.RawMessage(`{"A":9223372036854775808,"B":18446744073709551616,"C":-9223372036854775809}`), numbers{})
	want := fmt.Sprintf("A: must be from %d to %d\nB: must be from 0 to %d\nC: must be from %d to %d",
		math.MinInt64, math.MaxInt64, uint64(math.MaxUint64), math.MinInt, math.MaxInt)
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestDecodeConfigBoundsItsReport(t *testing.T) {
	members := make(map[string]int)
	for i := range 5000 {
		members[fmt.Sprintf("%d%s", i, strings.Repeat("x", 1000))] = i
	}
	raw, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	_, err = DecodeConfig(raw, settings{})
	if err == nil || len(err.Error()) > 10<<10 || !strings.HasSuffix(err.Error(), "and 4980 more mistakes") {
		t.Errorf("got %d bytes of error", len(fmt.Sprint(err)))
	}
}

// checked is a config whose Validate finds what the test wants.
type checked struct {
	Path    string            `json:"path"`
	Command []string          `json:"command"`
	Headers map[string]string `json:"headers"`
	Find    bool              `json:"find"`

	_ struct{} `instead:"file: write path"`
}

func (c checked) Validate() error {
	if !c.Find {
		return nil
	}
	return errors.Join(
		errors.New("path: none does not exist"), nil, errors.Join(errors.New("command[0]: must not be empty")),
		fmt.Errorf("headers.X: %w and %w", errors.New("goes with"), errors.New("no path")),
	)
}

// What is wrong with values stands beside what is wrong with fields, unless it follows from that.
func TestDecodeConfigValidates(t *testing.T) {
	const known = " (known: command, find, headers, path)"
	path, command, headers := "path: none does not exist", "command[0]: must not be empty", "headers.X: goes with and no path"
	for give, want := range map[string][]string{
		`{"find":true}`:             {path, command, headers},
		`{"find":true,"zz":1}`:      {`unknown field "zz"` + known, path, command, headers},
		`{"find":true,"pth":1}`:     {`unknown field "pth", did you mean "path"?` + known, command},
		`{"find":true,"file":1}`:    {`unknown field "file"; write path`, command},
		`{"find":true,"path":1}`:    {"path: must be a string, not a number (put it in quotes)", command},
		`{"find":true,"headers":1}`: {"headers: must be a mapping of strings, not a number", path, command},
		`[]`:                        {"config: must be a mapping, not a list"},
		`{`:                         {"config: is not one JSON value: unexpected end of JSON input"},
	} {
		_, byValue := DecodeConfig(json.RawMessage(give), checked{Find: true})
		_, byPointer := DecodeConfig(json.RawMessage(give), &checked{Find: true})
		for _, err := range []error{byValue, byPointer} {
			if err == nil {
				t.Errorf("%s: accepted", give)
				continue
			}
			if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("%s (-want +got)\n%s", give, diff)
			}
			all, _ := err.(interface{ Unwrap() []error })
			if all == nil || len(all.Unwrap()) != len(want) {
				t.Errorf("%s: %v is not %d errors", give, err, len(want))
			}
		}
	}
	if _, err := DecodeConfig(json.RawMessage(`{}`), checked{}); err != nil {
		t.Error(err)
	}
	if c, err := DecodeConfig[*checked](nil, nil); err != nil || c == nil {
		t.Errorf("got %v, %v; want what is empty", c, err)
	}
}

func FuzzDecodeConfig(f *testing.F) {
	f.Add(`{"command":["a",true,null]}`)
	f.Add(`{"hmac":{"hmac":{}},"":0,"headers":{"":""}}`)
	f.Add(`{"retries":[[],{"after":"1s","after":1}],"pair":[1,2,3]} x`)
	f.Fuzz(func(t *testing.T, raw string) {
		c, err := DecodeConfig(json.RawMessage(raw), settings{})
		if err != nil {
			return
		}
		if trimmed := strings.TrimSpace(raw); trimmed != "" && !json.Valid([]byte(raw)) {
			t.Errorf("%q is accepted as %+v", raw, c)
		}
	})
}
