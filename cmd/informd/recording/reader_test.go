package recording

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// readAll returns the lines of a recording, as TYPE RESOURCE OBJECT@LINE.
func readAll(t *testing.T, from io.Reader) (all []string, r *reader, err error) {
	t.Helper()
	r, err = newReader("file", from)
	if err != nil {
		t.Fatal(err)
	}
	for {
		d, err := r.next()
		if errors.Is(err, io.EOF) {
			return all, r, nil
		}
		if err != nil {
			return all, r, err
		}
		l, err := d.read()
		if err != nil {
			return all, r, err
		}
		when := ""
		if !l.Time.IsZero() {
			when = l.Time.Format(" 15:04:05.000")
		}
		name := identify(l.Object).Metadata.Name
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s@%d%s", l.Type, l.Resource, name, d.at, when)))
	}
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Flush(), w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`

func TestReader(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		want       []string
		cutAt      int
	}{
		{name: "nothing", text: " \n"},
		{
			name: "lines of a recording",
			text: `{"type":"RECORDING","time":"2026-01-02T03:04:05.678Z","selections":[{"resource":"v1/pods"}]}
{"type":"ADDED","time":"2026-01-02T03:04:05Z","resource":"v1/pods","object":` + pod + `}
{"type":"LISTED"}
`,
			want: []string{"RECORDING  @1 03:04:05.678", "ADDED v1/pods a@2 03:04:05.000", "LISTED  @3"},
		}, {
			name: "pretty changes, and several on a line",
			text: "{\n  \"type\": \"ADDED\",\n  \"object\": " + pod + "\n}\n{\"type\":\"DELETED\",\"object\":" + pod + "} {\"type\":\"BOOKMARK\",\"object\":{}}",
			want: []string{"ADDED  a@1", "DELETED  a@5", "BOOKMARK  @5"},
		}, {
			name: "objects",
			text: pod + "\n\n" + `{"kind":"Secret","apiVersion":"v1","type":"Opaque","object":{"x":1},"metadata":{"name":"s","annotations":{"x":"}\"]"}}}`,
			want: []string{"a@1", "s@3"},
		}, {
			name: "a list, and what comes after it",
			text: "{\n\"apiVersion\": \"v1\",\n\"items\" : [\n" + pod + ",\n" + pod + "\n],\n\"kind\": \"List\", \"metadata\": {\"x\": [1]}}\n" + pod,
			want: []string{"a@4", "a@5", "a@8"},
		}, {
			name: "an empty list, an array, and fields that only look like a list",
			text: `{"items":[]}[` + pod + "\n," + pod + `]{"kind":"Pod","metadata":{"name":"b","x":"items"},"items":{"items":[1]},"spec":[2]}`,
			want: []string{"a@1", "a@2", "b@2"},
		},
		{name: "cut within a change", text: `{"type":"ADDED","object":` + pod + "}\n" + `{"type":"ADDED","obj`, want: []string{"ADDED  a@1"}, cutAt: 2},
		{name: "cut within a list", text: `{"items":[` + pod + ",\n", want: []string{"a@1"}, cutAt: 2},
		{name: "cut after a list's items", text: `{"items":[` + pod + "],\n", want: []string{"a@1"}, cutAt: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, form := range []io.Reader{strings.NewReader(test.text), bytes.NewReader(zipped(t, test.text))} {
				got, r, err := readAll(t, form)
				if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
					t.Errorf("%v (-want +got)\n%s", err, diff)
				}
				if r.isCut != (test.cutAt > 0) || r.cutAt != test.cutAt {
					t.Errorf("cut: %v, in line %d; want %d", r.isCut, r.cutAt, test.cutAt)
				}
			}
		})
	}
}

// A compressed recording that was cut anywhere, by a kill or a full disk, has all lines before.
func TestReaderOfCutGzip(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for range 2000 {
		text.WriteString(`{"type":"ADDED","object":` + pod + "}\n")
	}
	whole := zipped(t, text.String())
	for _, size := range []int{20, len(whole) / 2, len(whole) - 9, len(whole) - 1} {
		got, r, err := readAll(t, bytes.NewReader(whole[:size]))
		if err != nil || size > 20 && (len(got) == 0 || r.isCut != (len(got) < 2000)) {
			t.Errorf("%d of %d bytes: %d lines, %v", size, len(whole), len(got), err)
		}
	}
}

func TestReaderMistakes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want string }{
		{"kind: Pod\n", `file:1: not JSON: want what informd record writes, or kubectl get prints with -o json, and not "kind: Pod"`},
		{"\n" + pod + "\nError from server\n{}", `file:3: not JSON: want`},
		{pod + "\n{\"type\": \"ADDED\",\n \"object\": oops}", `file:3: not JSON: `},
		{`{"type":"ADDED"}`, `file:1: neither a change nor an object`},
		{`{"type":"MOVED","object":{}}`, `file:1: neither a change nor an object`},
		{`{"type":7,"object":{}}`, `file:1: neither a change nor an object`},
		{`{"type":"ADDED","time":"today","object":{}}`, `file:1: its time is "today": want a time as RFC 3339`},
		{`{"type":"ADDED","resource":7,"object":{}}`, `file:1: its resource is 7: want a text, such as apps/v1/deployments`},
		{`{"items":[1]}`, `file:1: not JSON: want`},
		{"]", `file:1: not JSON: want`},
	} {
		if _, _, err := readAll(t, strings.NewReader(test.text)); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s\ngot  %v\nwant %s", test.text, err, test.want)
		}
	}
	r, err := newReader("file", strings.NewReader(`{"x":"`+strings.Repeat("x", 1<<20)+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.max = 1 << 20
	if _, err := r.next(); err == nil || err.Error() != "file:1: it has more than 1 MiB" {
		t.Errorf("got %v", err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(`{"items":[` + pod + `]}` + pod)
	f.Add(`[{"type":"ADDED","object":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		_, _, _ = readAll(t, strings.NewReader(text)) // it ends
	})
}
