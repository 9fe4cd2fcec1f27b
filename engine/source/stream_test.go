package source

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/integration/apistub"
)

// Events that have come together are read together. read waits only for the first, and for no
// event that has not come as a whole.
func TestStreamReadsTogetherWhatCameTogether(t *testing.T) {
	t.Parallel()
	s, _ := newInformers(t, apistub.New(t).Config(), Options{})
	reader := s.Informer(Selection{Resource: pods}).client.reader
	last := event("MODIFIED", podAt("a", 6, 6))
	for _, c := range []struct {
		reason, first, second string // what comes at first, and once that has been read
		want                  []int
	}{
		{"lines", event("ADDED", podAt("a", 1, 1)) + event("MODIFIED", podAt("a", 2, 2)) + last[:40], last[40:], []int{2, 1, 1}},
		{"empty lines", event("ADDED", podAt("a", 1, 1)) + " \n\n" + event("MODIFIED", podAt("a", 2, 2)) + "\n", last, []int{2, 1, 1}},
		{"more than may be", strings.Repeat(event("ADDED", podAt("a", 1, 1)), 7), last, []int{5, 2, 1, 1}},
		{"no lines", pretty(event("ADDED", podAt("a", 1, 1)) + event("MODIFIED", podAt("a", 2, 2))), last, []int{1, 1, 1, 1}},
		{"no event", event("ADDED", podAt("a", 1, 1)) + "no JSON\n" + last, "", []int{2}},
	} {
		body, server := io.Pipe()
		watch := newStream(body, reader)
		go func() {
			_, _ = io.WriteString(server, c.first)
			_, _ = io.WriteString(server, c.second) // the pipe waits for a Read of each
			_ = server.Close()
		}()
		var got []int
		for more := true; more; {
			all := watch.read(nil, 5)
			got = append(got, len(all))
			more = all[len(all)-1].err == nil
		}
		watch.close()
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: read %v events, want %v", c.reason, got, c.want)
		}
	}
}

// The cases are contents of a watch, and what the informer makes of them. Before each case a list
// brings pod a in state 1, at resourceVersion 10. After each case a watch brings pod end, so the
// case is over when end arrives.
func TestWatchBodies(t *testing.T) {
	t.Parallel()
	updated := event("MODIFIED", podAt("a", 2, 11))
	all := updated + event("ADDED", podAt("b", 1, 12)) + event("DELETED", podAt("b", 1, 13))
	allHeard := []string{"updated a 1→2", "added b 1", "deleted b 1"}
	gone := reply{body: podList(`"resourceVersion":"50"`, podAt("a", 5, 45))}
	large := strings.Replace(podAt("a", 2, 11), `"spec":{`, `"spec":{"text":"`+strings.Repeat(`0123456789\n`, 500_000)+`",`, 1)

	cases := []struct {
		reason     string
		watch      []reply // what watches bring before pod end
		relist     []reply
		heard      []string
		from       string // the position at which each later watch begins
		unreadable int
	}{
		// Forms that servers and proxies send.
		{reason: "a line for each", watch: []reply{{body: all}}, heard: allHeard, from: "13"},
		{reason: "no line break at the end", watch: []reply{{body: strings.TrimSpace(all)}}, heard: allHeard, from: "13"},
		{reason: "lines end as on Windows", watch: []reply{{body: strings.ReplaceAll(all, "\n", "\r\n")}}, heard: allHeard, from: "13"},
		{reason: "nothing in between", watch: []reply{{body: strings.ReplaceAll(all, "\n", "")}}, heard: allHeard, from: "13"},
		{reason: "space everywhere", watch: []reply{{body: "\n \n" + spaced(all) + "\t\r\n"}}, heard: allHeard, from: "13"},
		{reason: "pretty-printed", watch: []reply{{body: pretty(all)}}, heard: allHeard, from: "13"},
		{reason: "the object before its type", watch: []reply{{body: swapped(all)}}, heard: allHeard, from: "13"},
		{reason: "more than type and object",
			watch: []reply{{body: strings.ReplaceAll(all, `{"type"`, `{"apiVersion":"v1","more":{"type":"DELETED","object":{}},"type"`)}},
			heard: allHeard, from: "13"},
		{reason: "escaped names",
			watch: []reply{{body: strings.NewReplacer(`"type"`, `"\u0074ype"`, `"object"`, `"o\u0062ject"`, `"name"`, `"\u006eame"`, `"MODIFIED"`, `"MODIFIE\u0044"`).Replace(all)}},
			heard: allHeard, from: "13"},
		{reason: "the last counts of what is there twice",
			watch: []reply{{body: `{"type":"DELETED","object":` + podAt("a", 9, 99) + `,"type":"MODIFIED","object":` + podAt("a", 2, 11) + "}\n"}},
			heard: allHeard[:1], from: "11"},
		{reason: "a large event, and a small one behind it",
			watch: []reply{{body: event("MODIFIED", large) + event("MODIFIED", podAt("a", 3, 12))}},
			heard: []string{"updated a 1→2", "updated a 2→3"}, from: "12"},
		{reason: "nothing at all", watch: []reply{{}}, from: "10"},
		{reason: "space alone", watch: []reply{{body: " \r\n\t"}}, from: "10"},
		{reason: "its type has parameters",
			watch: []reply{{body: all, contentType: "application/json;stream=watch; charset=utf-8"}},
			heard: allHeard, from: "13"},
		{reason: "it has no type", watch: []reply{{body: all, contentType: "none"}}, heard: allHeard, from: "13"},

		// A bookmark moves the position of the next watch, and the consumer gets no step with an
		// object.
		{reason: "a bookmark", watch: []reply{{body: event("BOOKMARK", bookmarkAt(20))}}, from: "20"},
		{reason: "a bookmark with annotations",
			watch: []reply{{body: spaced(event("BOOKMARK", `{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"21","annotations":{"k8s.io/initial-events-end":"true","x":"y"}}}`))}},
			from:  "21"},
		{reason: "a bookmark, pretty-printed, and its object first",
			watch: []reply{{body: pretty(swapped(event("BOOKMARK", bookmarkAt(22))))}},
			from:  "22"},
		{reason: "a bookmark between changes",
			watch: []reply{{body: updated + event("BOOKMARK", bookmarkAt(23))}},
			heard: allHeard[:1], from: "23"},

		// The informer counts what is no object, and the watch goes on.
		{reason: "no object at all, of several kinds",
			watch: []reply{{body: event("ADDED", "null") + event("ADDED", "7") + event("MODIFIED", `"a"`) + event("DELETED", "[]") + event("ADDED", "{}") + updated}},
			heard: allHeard[:1], from: "11", unreadable: 5},
		{reason: "an object without a name",
			watch: []reply{{body: event("ADDED", `{"metadata":{"namespace":"shop","uid":"u"}}`) + updated}},
			heard: allHeard[:1], from: "11", unreadable: 1},
		{reason: "a name that is no text",
			watch: []reply{{body: event("ADDED", `{"metadata":{"name":7}}`) + updated}},
			heard: allHeard[:1], from: "11", unreadable: 1},
		{reason: "a number that nobody could decode",
			watch: []reply{{body: event("MODIFIED", strings.Replace(podAt("a", 2, 11), `"v":2`, `"v":1e999`, 1))}},
			heard: []string{"deleted a 1"}, from: "11", unreadable: 1},
		{reason: "what could not be read can be again",
			watch: []reply{{body: event("MODIFIED", strings.Replace(podAt("a", 2, 11), `"v":2`, `"v":1e999`, 1)) + event("MODIFIED", podAt("a", 3, 12))}},
			heard: []string{"deleted a 1", "added a 3"}, from: "12", unreadable: 1},

		// What is no watch event ends the watch. The next watch begins after the last good event.
		{reason: "not JSON", watch: []reply{{body: updated + "no JSON\n" + all}}, heard: allHeard[:1], from: "11"},
		{reason: "not JSON within an object",
			watch: []reply{{body: updated + `{"type":"MODIFIED","object":{"metadata":{]}}` + "\n" + all}},
			heard: allHeard[:1], from: "11"},
		{reason: "a string without an end",
			watch: []reply{{body: updated + strings.Replace(event("MODIFIED", podAt("a", 3, 12)), `"v"`, `"v`, 1) + all}},
			heard: allHeard[:1], from: "11"},
		{reason: "brackets that do not match",
			watch: []reply{{body: updated + `{"type":"MODIFIED","object":{"metadata":[}}}` + "\n"}},
			heard: allHeard[:1], from: "11"},
		{reason: "more behind an event on its line",
			watch: []reply{{body: updated + `{"type":"MODIFIED","object":` + podAt("a", 3, 12) + `} true` + "\n"}},
			heard: allHeard[:1], from: "11"},
		{reason: "not an event", watch: []reply{{body: updated + "[]\n" + all}}, heard: allHeard[:1], from: "11"},
		{reason: "an event without an object",
			watch: []reply{{body: updated + `{"type":"DELETED"}` + "\n" + all}},
			heard: allHeard[:1], from: "11"},
		{reason: "an event without a type",
			watch: []reply{{body: updated + `{"object":` + podAt("a", 3, 12) + "}\n" + all}},
			heard: allHeard[:1], from: "11"},
		{reason: "a type that is no text",
			watch: []reply{{body: updated + `{"type":1,"object":` + podAt("a", 3, 12) + "}\n" + all}},
			heard: allHeard[:1], from: "11"},
		{reason: "a type that nobody knows",
			watch: []reply{{body: updated + event("PATCHED", podAt("a", 3, 12)) + all}},
			heard: allHeard[:1], from: "11"},
		{reason: "types are upper case",
			watch: []reply{{body: updated + event("deleted", podAt("a", 2, 12)) + all}},
			heard: allHeard[:1], from: "11"},
		{reason: "a bookmark that is no object",
			watch: []reply{{body: updated + event("BOOKMARK", "null") + all}},
			heard: allHeard[:1], from: "11"},
		{reason: "pretty-printed behind a line, which is not thought of",
			watch: []reply{{body: updated + pretty(event("MODIFIED", podAt("a", 3, 12)))}},
			heard: allHeard[:1], from: "11"},
		{reason: "two on a line behind a line, which is not thought of",
			watch: []reply{{body: updated + strings.ReplaceAll(all, "\n", "") + "\n"}},
			heard: allHeard[:1], from: "11"},
		{reason: "two on a line behind a line, and the end",
			watch: []reply{{body: updated + strings.ReplaceAll(all, "\n", "")}},
			heard: allHeard, from: "13"},

		// A second failure in a row is not the connection's fault, so the informer lists.
		{reason: "not JSON, again",
			watch:  []reply{{body: "<html>"}, {body: "<html>"}},
			relist: []reply{gone}, heard: []string{"updated a 1→5"}, from: "10 50"},
		{reason: "a type that nobody knows, again",
			watch:  []reply{{body: event("PATCHED", podAt("a", 3, 12))}, {body: event("PATCHED", podAt("a", 3, 12))}},
			relist: []reply{gone}, heard: []string{"updated a 1→5"}, from: "10 50"},
		{reason: "not JSON, and not again",
			watch: []reply{{body: "<html>"}, {body: updated + "<html>"}, {}},
			heard: allHeard[:1], from: "10 11 11"},
		{reason: "an event of more than 16 MiB",
			watch:  []reply{{body: event("MODIFIED", `{"x":"`+strings.Repeat("x", maxFrame)+`"}`)}, {body: `{"x":"` + strings.Repeat("x", maxFrame)}},
			relist: []reply{gone}, heard: []string{"updated a 1→5"}, from: "10 50"},

		// A connection ends within an event: the informer behaves as if the event had not begun.
		{reason: "ends within an event",
			watch: []reply{{body: updated + event("MODIFIED", podAt("a", 3, 12))[:100]}},
			heard: allHeard[:1], from: "11"},
		{reason: "breaks within an event",
			watch: []reply{{body: updated + event("MODIFIED", podAt("a", 3, 12))[:100], end: breaks}},
			heard: allHeard[:1], from: "11"},
		{reason: "breaks within an event, again and again",
			watch: []reply{{body: event("MODIFIED", podAt("a", 3, 12))[:70], end: breaks}, {body: event("MODIFIED", podAt("a", 3, 12))[:10], end: breaks}, {body: event("MODIFIED", podAt("a", 3, 12))[:1]}, {end: breaks}},
			from:  "10 10 10 10"},
		{reason: "breaks between two", watch: []reply{{body: updated, end: breaks}}, heard: allHeard[:1], from: "11"},

		// Errors that the server reports.
		{reason: "410 Gone",
			watch:  []reply{{body: updated + event("ERROR", failure(http.StatusGone, "Expired")) + all}},
			relist: []reply{gone}, heard: []string{"updated a 1→2", "updated a 2→5"}, from: "50"},
		{reason: "410 Gone, pretty-printed, and its object first",
			watch:  []reply{{body: pretty(swapped(event("ERROR", failure(http.StatusGone, "Expired"))))}},
			relist: []reply{gone}, heard: []string{"updated a 1→5"}, from: "50"},
		{reason: "429 Too Many Requests",
			watch: []reply{{body: updated + event("ERROR", failure(http.StatusTooManyRequests, "TooManyRequests")) + all}},
			heard: allHeard[:1], from: "11"},
		{reason: "500 Internal Error",
			watch:  []reply{{body: updated + event("ERROR", failure(http.StatusInternalServerError, "InternalError"))}},
			relist: []reply{gone}, heard: []string{"updated a 1→2", "updated a 2→5"}, from: "50"},
		{reason: "an error that is no Status",
			watch:  []reply{{body: updated + event("ERROR", podAt("a", 3, 12))}},
			relist: []reply{gone}, heard: []string{"updated a 1→2", "updated a 2→5"}, from: "50"},
		{reason: "an error that is nothing",
			watch:  []reply{{body: updated + event("ERROR", "null")}},
			relist: []reply{gone}, heard: []string{"updated a 1→2", "updated a 2→5"}, from: "50"},

		// The informer retries if an answer is no watch.
		{reason: "a page of HTML",
			watch: []reply{{body: "<html>Service Unavailable</html>", status: http.StatusServiceUnavailable, contentType: "text/html"}},
			from:  "10"},
		{reason: "a page of HTML in the place of a watch",
			watch: []reply{{body: "<html>Please log in</html>", contentType: "text/html"}},
			from:  "10"},
		{reason: "a type that was not asked for", watch: []reply{{body: all, contentType: "application/yaml"}}, from: "10"},
		{reason: "a Status",
			watch: []reply{{body: failure(http.StatusServiceUnavailable, "ServiceUnavailable"), status: http.StatusServiceUnavailable}},
			from:  "10"},
		{reason: "a Status of 200", watch: []reply{{body: failure(http.StatusServiceUnavailable, "ServiceUnavailable")}}, from: "10"},
	}
	for _, c := range cases {
		for _, by := range ways {
			if !by.suits(c.watch) {
				continue
			}
			t.Run(c.reason+", "+by.name, func(t *testing.T) {
				t.Parallel()
				s := &script{
					by:      by,
					lists:   append([]reply{{body: podList(`"resourceVersion":"10"`, podAt("a", 1, 5))}}, c.relist...),
					watches: append(c.watch[:len(c.watch):len(c.watch)], reply{body: event("ADDED", podAt("end", 1, 90)), end: stays}),
				}
				i, e := s.follow(t)
				e.expect(t, append(append([]string{"synced a 1"}, c.heard...), "added end 1")...)
				if diff := cmp.Diff(strings.Fields("10 "+c.from), s.asked()); diff != "" {
					t.Errorf("watches began at other positions (-want +got):\n%s", diff)
				}
				if n := i.Stats().Unreadable; n != uint64(c.unreadable) {
					t.Errorf("%d unreadable objects were counted, want %d", n, c.unreadable)
				}
			})
		}
	}
}

// If a connection ends within an event, at any byte and in good order or not, the consumer gets the
// event only from the watch that delivers all of it. The informer does not list again.
func TestWatchesCutAnywhere(t *testing.T) {
	// Not t.Parallel: these are hundreds of requests in a row, which take long beside other tests.
	modified, added, deleted := event("MODIFIED", podAt("a", 2, 11)), spaced(event("ADDED", podAt("b", 1, 12))), pretty(event("DELETED", podAt("b", 1, 13)))
	for _, by := range []way{atOnce, compressed} {
		t.Run(by.name, func(t *testing.T) {
			t.Parallel()
			s := &script{by: by, lists: []reply{{body: podList(`"resourceVersion":"10"`, podAt("a", 1, 5))}}}
			var from []string
			for n, whole := range []string{modified, added, deleted, event("ADDED", podAt("end", 1, 14))} {
				for _, before := range []string{"", event("BOOKMARK", bookmarkAt(10+n))} {
					for size := range len(strings.TrimSpace(whole)) {
						s.watches = append(s.watches, reply{body: before + whole[:size], end: []ending{ends, breaks}[size%2]})
						from = append(from, strconv.Itoa(10+n))
					}
				}
				s.watches = append(s.watches, reply{body: whole})
				from = append(from, strconv.Itoa(10+n))
			}
			_, e := s.follow(t)
			e.expect(t, "synced a 1", "updated a 1→2", "added b 1", "deleted b 1", "added end 1")
			if diff := cmp.Diff(from, s.asked()[:len(from)]); diff != "" {
				t.Errorf("watches began at other positions (-want +got):\n%s", diff)
			}
		})
	}
}

func bookmarkAt(resourceVersion int) string {
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"%d","creationTimestamp":null}}`, resourceVersion)
}

// eachFrame applies f to each of the lines.
func eachFrame(lines string, f func(string) string) string {
	var out strings.Builder
	for line := range strings.Lines(lines) {
		out.WriteString(f(strings.TrimSpace(line)) + "\n")
	}
	return out.String()
}

func pretty(lines string) string {
	return eachFrame(lines, func(line string) string {
		var out bytes.Buffer
		if err := json.Indent(&out, []byte(line), "", "\t"); err != nil {
			panic(err)
		}
		return out.String()
	})
}

func spaced(lines string) string {
	return eachFrame(lines, strings.NewReplacer("{", " {\r\n ", "}", "\t} ", ":", " : ", ",", "\n, ", "]", " ]").Replace)
}

// swapped puts the object before its type.
func swapped(lines string) string {
	return eachFrame(lines, func(line string) string {
		var e struct {
			Type   string
			Object json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			panic(err)
		}
		return fmt.Sprintf(`{"object":%s,"type":%q}`, e.Object, e.Type)
	})
}
