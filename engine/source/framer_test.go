package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// chunks delivers a body in pieces of the given sizes, and repeats the last size.
type chunks struct {
	body  io.Reader
	sizes []byte
}

func (c *chunks) Read(p []byte) (int, error) {
	size := 1 + int(c.sizes[0])
	if len(c.sizes) > 1 {
		c.sizes = c.sizes[1:]
	}
	return c.body.Read(p[:min(size, len(p))])
}

// framesOf reads a body to its end.
func framesOf(body io.Reader) (frames []string, err error) {
	r := newFrameReader(body)
	for {
		frame, err := r.next()
		if err != nil {
			return frames, err
		}
		frames = append(frames, string(frame))
	}
}

func TestFrames(t *testing.T) {
	t.Parallel()
	line := `{"type":"ADDED","object":{"a":"}\n{\\"}}`
	pretty := "{\n  \"type\": \"ADDED\",\n  \"object\": {}\n}"
	large := `{"x":"` + strings.Repeat("x", 3*frameBuffer) + `"}`
	for _, c := range []struct {
		why, body string
		want      []string
		err       error
	}{
		{"lines", line + "\n" + line + "\n" + large + "\n" + line + "\n", []string{line, line, large, line}, io.EOF},
		{"the last without a line break", line + "\n" + line, []string{line, line}, io.EOF},
		{"lines as Windows has them", line + "\r\n" + line + "\r\n", []string{line, line}, io.EOF},
		{"nothing in between", line + line + large + line, []string{line, line, large, line}, io.EOF},
		{"space in between", "\n\n " + line + " \n\n\t" + line + "\n", []string{line, line}, io.EOF},
		{"two to a line", line + line + "\n" + line + line + "\n", []string{line, line, line, line}, io.EOF},
		{"pretty-printed", pretty + "\n" + pretty + "\n" + pretty, []string{pretty, pretty, pretty}, io.EOF},
		{"nothing", "", nil, io.EOF},
		{"cut off in a line", line + "\n" + line[:20], []string{line}, io.ErrUnexpectedEOF},
		{"cut off in the first", pretty[:20], nil, io.ErrUnexpectedEOF},
		{"no JSON", "<html></html>", nil, errNoFrame},
		{"no JSON behind a line", line + "\nhello\n", []string{line}, errNoFrame},
		{"no end", `{"x":"` + strings.Repeat("x", 2*maxFrame), nil, errFrameTooBig},
	} {
		for _, one := range []bool{false, true} {
			if one && len(c.body) > maxFrame {
				continue // too slow byte by byte
			}
			body := io.Reader(strings.NewReader(c.body))
			if one {
				body = iotest.OneByteReader(body)
			}
			got, err := framesOf(body)
			if diff := cmp.Diff(c.want, got); diff != "" || !errors.Is(err, c.err) {
				t.Errorf("%s, byte by byte %v: %v, want %v\n%s", c.why, one, err, c.err, diff)
			}
		}
	}
}

// In whatever pieces a body arrives, its frames are the values that encoding/json finds. A
// truncated frame is an error, or no valid frame. (The reader does not support a server that prints
// one frame on a line and the next on several.)
func FuzzFrames(f *testing.F) {
	f.Add([]byte(`{"a":"\"}{"}`+"\n"+`{"b":[{}]}`+"\n"+`{}`), []byte{0, 200})
	f.Add([]byte("{\n\"a\": 1\n}\n{\"b\":2}\n{\n}"), []byte{5})
	f.Add([]byte(`{}{}`+"\n"+`{"cut":`), []byte{2, 1})
	f.Fuzz(func(t *testing.T, body, sizes []byte) {
		if len(sizes) == 0 {
			return
		}
		var want []string
		decoder := json.NewDecoder(bytes.NewReader(body))
		for {
			var value json.RawMessage
			if err := decoder.Decode(&value); err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					return // invalid JSON is found when the frame is decoded
				}
				break
			}
			if value[0] != '{' {
				return
			}
			want = append(want, string(value))
			if bytes.Contains(value, []byte("\n")) != strings.Contains(want[0], "\n") {
				return
			}
		}
		got, err := framesOf(&chunks{bytes.NewReader(body), sizes})
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, errNoFrame) {
			t.Fatal(err)
		}
		for i := range got {
			got[i] = strings.TrimRight(got[i], " \t\r") // the end of a line
		}
		if len(got) > len(want) && !json.Valid([]byte(got[len(want)])) {
			got = got[:len(want)]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}
