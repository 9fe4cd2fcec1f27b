package strict_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/builtin/internal/strict"
)

type config struct {
	Path    string
	Timeout time.Duration
	Command []string
	Headers map[string]string
	Secret  string
}

func decode(raw string) (config, error) {
	var c config
	err := strict.Decode(json.RawMessage(raw), strict.Fields{
		"path": &c.Path, "timeout": &c.Timeout, "command": &c.Command, "headers": &c.Headers,
		"hmac": strict.Fields{"secretFile": &c.Secret},
		"file": strict.Instead("write path"),
	})
	return c, err
}

func TestDecode(t *testing.T) {
	got, err := decode(`{"path":"a","timeout":"1m30s","command":["b",""],"headers":{"X":""},"hmac":{"secretFile":"s"}}`)
	if err != nil {
		t.Fatal(err)
	}
	want := config{"a", 90 * time.Second, []string{"b", ""}, map[string]string{"X": ""}, "s"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, nothing := range []string{"", " ", "null", "{}", `{"path":null,"hmac":null,"timeout":null}`} {
		if got, err := decode(nothing); err != nil || !cmp.Equal(got, config{}) {
			t.Errorf("%q: got %+v, %v; want nothing set", nothing, got, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	const known = " (known: command, headers, hmac, path, timeout)"
	for _, test := range []struct {
		give string
		want []string // the lines of the error
	}{
		{`[]`, []string{"config: must be a mapping, not a list"}},
		{`"x"`, []string{"config: must be a mapping, not a string"}},
		{`{"path":`, []string{"config: must be a mapping, not something that is not JSON"}},
		{`{"pth":"x"}`, []string{`unknown field "pth", did you mean "path"?` + known}},
		{`{"Path":"x"}`, []string{`unknown field "Path", did you mean "path"?` + known}},
		{`{"file":"x"}`, []string{`unknown field "file"; write path`}},
		{`{"retries":"x"}`, []string{`unknown field "retries"` + known}},
		{`{"hmac":{"secretfile":"x"}}`, []string{`hmac: unknown field "secretfile", did you mean "secretFile"? (known: secretFile)`}},
		{`{"path":7}`, []string{"path: must be a string, not a number (put it in quotes)"}},
		{`{"path":""}`, []string{"path: must not be empty"}},
		{`{"timeout":5}`, []string{`timeout: must be a duration such as "10s", not a number`}},
		{`{"timeout":"soon"}`, []string{`timeout: must be a duration such as "10s" or "1m30s"`}},
		{`{"command":"ls -l"}`, []string{"command: must be a list of strings, not a string"}},
		{`{"command":["a",true,null]}`, []string{
			"command[1]: must be a string, not a boolean",
			"command[2]: must be a string, not null",
		}},
		{`{"headers":{"B":[1],"A":{}}}`, []string{
			"headers.A: must be a string, not a mapping",
			"headers.B: must be a string, not a list",
		}},
		{`{"command":{},"path":[],"zz":1}`, []string{ // several mistakes at once
			"command: must be a list of strings, not a mapping",
			"path: must be a string, not a list",
			`unknown field "zz"` + known,
		}},
	} {
		_, err := decode(test.give)
		if err == nil {
			t.Errorf("%s: accepted", test.give)
			continue
		}
		if diff := cmp.Diff(test.want, strings.Split(err.Error(), "\n")); diff != "" {
			t.Errorf("%s (-want +got)\n%s", test.give, diff)
		}
	}
}

func TestDecodeBoundsItsReport(t *testing.T) {
	members := make(map[string]int)
	for i := range 5000 {
		members[fmt.Sprintf("%d%s", i, strings.Repeat("x", 1000))] = i
	}
	raw, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	_, err = decode(string(raw))
	if err == nil || len(err.Error()) > 8<<10 || !strings.HasSuffix(err.Error(), "and 4980 more mistakes") {
		t.Errorf("got %d bytes of error", len(fmt.Sprint(err)))
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(`{"command":["a",true,null]}`)
	f.Add(`{"hmac":{"hmac":{}},"":0,"headers":{"":""}}`)
	f.Fuzz(func(t *testing.T, raw string) { _, _ = decode(raw) })
}

// What is wrong with values stands beside what is wrong with members, unless it follows from that.
func TestJoin(t *testing.T) {
	const known = " (known: command, headers, hmac, path, timeout)"
	values := []error{
		errors.New("path: none does not exist"), nil, errors.New("command[0]: must not be empty"),
		errors.New("headers.X: goes with no path"),
	}
	for give, want := range map[string][]string{
		`{}`: {"path: none does not exist", "command[0]: must not be empty", "headers.X: goes with no path"},
		`{"zz":1}`: {`unknown field "zz"` + known, "path: none does not exist", "command[0]: must not be empty",
			"headers.X: goes with no path"},
		`{"pth":1}`:  {`unknown field "pth", did you mean "path"?` + known, "command[0]: must not be empty"},
		`{"file":1}`: {`unknown field "file"; write path`, "command[0]: must not be empty"},
		`{"path":1}`: {"path: must be a string, not a number (put it in quotes)", "command[0]: must not be empty"},
		`{"command":[1]}`: {"command[0]: must be a string, not a number (put it in quotes)",
			"path: none does not exist", "headers.X: goes with no path"},
		`[]`: {"config: must be a mapping, not a list"},
	} {
		_, err := decode(give)
		err = strict.Join(err, values...)
		if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
			t.Errorf("%s (-want +got)\n%s", give, diff)
		}
		all, _ := err.(interface{ Unwrap() []error })
		if all == nil || len(all.Unwrap()) != len(want) {
			t.Errorf("%s: %v is not %d errors", give, err, len(want))
		}
	}
	if _, err := decode(`{}`); strict.Join(err, nil, nil) != nil {
		t.Error("an error without any problem")
	}
}
