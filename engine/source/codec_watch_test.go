package source

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a watch may bring, and what becomes of it. Before each there is a list with pod a in state 1, at resourceVersion
// 10; behind each comes a watch that brings pod end. So a case is told in full when end has been.
func TestCodecOfWatches(t *testing.T) {
	updated := event("MODIFIED", podAt("a", 2, 11))
	all := updated + event("ADDED", podAt("b", 1, 12)) + event("DELETED", podAt("b", 1, 13))
	allHeard := []string{"updated a 1→2", "added b 1", "deleted b 1"}
	gone := reply{body: podList(`"resourceVersion":"50"`, podAt("a", 5, 45))}
	large := strings.Replace(podAt("a", 2, 11), `"spec":{`, `"spec":{"text":"`+strings.Repeat(`0123456789\n`, 500_000)+`",`, 1)

	cases := []struct {
		reason     string
		watch      []reply // until there is pod end
		relist     []reply
		heard      []string
		from       []string // where each watch behind the first begins
		unreadable int
	}{
		// As servers and proxies send it.
		{"a line for each", []reply{{body: all}}, nil, allHeard, []string{"13"}, 0},
		{"no line break at the end", []reply{{body: strings.TrimSpace(all)}}, nil, allHeard, []string{"13"}, 0},
		{"lines end as on Windows", []reply{{body: strings.ReplaceAll(all, "\n", "\r\n")}}, nil, allHeard, []string{"13"}, 0},
		{"nothing in between", []reply{{body: strings.ReplaceAll(all, "\n", "")}}, nil, allHeard, []string{"13"}, 0},
		{"space everywhere", []reply{{body: "\n \n" + spaced(all) + "\t\r\n"}}, nil, allHeard, []string{"13"}, 0},
		{"pretty-printed", []reply{{body: pretty(all)}}, nil, allHeard, []string{"13"}, 0},
		{"the object before its type", []reply{{body: swapped(all)}}, nil, allHeard, []string{"13"}, 0},
		{"more than type and object",
			[]reply{{body: strings.ReplaceAll(all, `{"type"`, `{"apiVersion":"v1","more":{"type":"DELETED","object":{}},"type"`)}}, nil, allHeard, []string{"13"}, 0},
		{"escaped names",
			[]reply{{body: strings.NewReplacer(`"type"`, `"\u0074ype"`, `"object"`, `"o\u0062ject"`, `"name"`, `"\u006eame"`, `"MODIFIED"`, `"MODIFIE\u0044"`).Replace(all)}},
			nil, allHeard, []string{"13"}, 0},
		{"the last counts of what is there twice",
			[]reply{{body: `{"type":"DELETED","object":` + podAt("a", 9, 99) + `,"type":"MODIFIED","object":` + podAt("a", 2, 11) + "}\n"}},
			nil, allHeard[:1], []string{"11"}, 0},
		{"a large event, and a small one behind it",
			[]reply{{body: event("MODIFIED", large) + event("MODIFIED", podAt("a", 3, 12))}}, nil, []string{"updated a 1→2", "updated a 2→3"}, []string{"12"}, 0},
		{"nothing at all", []reply{{}}, nil, nil, []string{"10"}, 0},
		{"space alone", []reply{{body: " \r\n\t"}}, nil, nil, []string{"10"}, 0},
		{"its type has parameters", []reply{{body: all, contentType: "application/json;stream=watch; charset=utf-8"}}, nil, allHeard, []string{"13"}, 0},
		{"it has no type", []reply{{body: all, contentType: "none"}}, nil, allHeard, []string{"13"}, 0},

		// Bookmarks move on where the next watch begins, and are no news.
		{"a bookmark", []reply{{body: event("BOOKMARK", bookmarkAt(20))}}, nil, nil, []string{"20"}, 0},
		{"a bookmark with annotations", []reply{{body: spaced(event("BOOKMARK",
			`{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"21","annotations":{"k8s.io/initial-events-end":"true","x":"y"}}}`))}}, nil, nil, []string{"21"}, 0},
		{"a bookmark, pretty-printed, and its object first", []reply{{body: pretty(swapped(event("BOOKMARK", bookmarkAt(22))))}}, nil, nil, []string{"22"}, 0},
		{"a bookmark between changes", []reply{{body: updated + event("BOOKMARK", bookmarkAt(23))}}, nil, allHeard[:1], []string{"23"}, 0},

		// What is no object of ours is counted, and the watch goes on.
		{"no object at all, of several kinds",
			[]reply{{body: event("ADDED", "null") + event("ADDED", "7") + event("MODIFIED", `"a"`) + event("DELETED", "[]") + event("ADDED", "{}") + updated}},
			nil, allHeard[:1], []string{"11"}, 5},
		{"an object without a name", []reply{{body: event("ADDED", `{"metadata":{"namespace":"shop","uid":"u"}}`) + updated}}, nil, allHeard[:1], []string{"11"}, 1},
		{"a name that is no text", []reply{{body: event("ADDED", `{"metadata":{"name":7}}`) + updated}}, nil, allHeard[:1], []string{"11"}, 1},
		{"a number that nobody could decode", []reply{{body: event("MODIFIED", strings.Replace(podAt("a", 2, 11), `"v":2`, `"v":1e999`, 1))}},
			nil, []string{"deleted a 1"}, []string{"11"}, 1},
		{"what could not be read can be again",
			[]reply{{body: event("MODIFIED", strings.Replace(podAt("a", 2, 11), `"v":2`, `"v":1e999`, 1)) + event("MODIFIED", podAt("a", 3, 12))}},
			nil, []string{"deleted a 1", "added a 3"}, []string{"12"}, 1},

		// What is no watch event ends the watch, and the next one begins behind what was good.
		{"not JSON", []reply{{body: updated + "no JSON\n" + all}}, nil, allHeard[:1], []string{"11"}, 0},
		{"not JSON within an object", []reply{{body: updated + `{"type":"MODIFIED","object":{"metadata":{]}}` + "\n" + all}}, nil, allHeard[:1], []string{"11"}, 0},
		{"a string without an end", []reply{{body: updated + strings.Replace(event("MODIFIED", podAt("a", 3, 12)), `"v"`, `"v`, 1) + all}}, nil, allHeard[:1], []string{"11"}, 0},
		{"brackets that do not match", []reply{{body: updated + `{"type":"MODIFIED","object":{"metadata":[}}}` + "\n"}}, nil, allHeard[:1], []string{"11"}, 0},
		{"more behind an event on its line", []reply{{body: updated + `{"type":"MODIFIED","object":` + podAt("a", 3, 12) + `} true` + "\n"}}, nil, allHeard[:1], []string{"11"}, 0},
		{"not an event", []reply{{body: updated + "[]\n" + all}}, nil, allHeard[:1], []string{"11"}, 0},
		{"an event without an object", []reply{{body: updated + `{"type":"DELETED"}` + "\n" + all}}, nil, allHeard[:1], []string{"11"}, 0},
		{"an event without a type", []reply{{body: updated + `{"object":` + podAt("a", 3, 12) + "}\n" + all}}, nil, allHeard[:1], []string{"11"}, 0},
		{"a type that is no text", []reply{{body: updated + `{"type":1,"object":` + podAt("a", 3, 12) + "}\n" + all}}, nil, allHeard[:1], []string{"11"}, 0},
		{"a type that nobody knows", []reply{{body: updated + event("PATCHED", podAt("a", 3, 12)) + all}}, nil, allHeard[:1], []string{"11"}, 0},
		{"types are upper case", []reply{{body: updated + event("deleted", podAt("a", 2, 12)) + all}}, nil, allHeard[:1], []string{"11"}, 0},
		{"a bookmark that is no object", []reply{{body: updated + event("BOOKMARK", "null") + all}}, nil, allHeard[:1], []string{"11"}, 0},
		{"pretty-printed behind a line, which is not thought of", []reply{{body: updated + pretty(event("MODIFIED", podAt("a", 3, 12)))}}, nil, allHeard[:1], []string{"11"}, 0},
		{"two on a line behind a line, which is not thought of", []reply{{body: updated + strings.ReplaceAll(all, "\n", "") + "\n"}}, nil, allHeard[:1], []string{"11"}, 0},
		{"two on a line behind a line, and the end", []reply{{body: updated + strings.ReplaceAll(all, "\n", "")}}, nil, allHeard, []string{"13"}, 0},

		// A second time in a row it is not the connection: a list is what helps.
		{"not JSON, again", []reply{{body: "<html>"}, {body: "<html>"}}, []reply{gone}, []string{"updated a 1→5"}, []string{"10", "50"}, 0},
		{"a type that nobody knows, again", []reply{{body: event("PATCHED", podAt("a", 3, 12))}, {body: event("PATCHED", podAt("a", 3, 12))}},
			[]reply{gone}, []string{"updated a 1→5"}, []string{"10", "50"}, 0},
		{"not JSON, and not again", []reply{{body: "<html>"}, {body: updated + "<html>"}, {}}, nil, allHeard[:1], []string{"10", "11", "11"}, 0},
		{"an event of more than 16 MiB", []reply{{body: event("MODIFIED", `{"x":"`+strings.Repeat("x", maxFrame)+`"}`)}, {body: `{"x":"` + strings.Repeat("x", maxFrame)}},
			[]reply{gone}, []string{"updated a 1→5"}, []string{"10", "50"}, 0},

		// Connections that end within an event: as if it had not begun.
		{"ends within an event", []reply{{body: updated + event("MODIFIED", podAt("a", 3, 12))[:100]}}, nil, allHeard[:1], []string{"11"}, 0},
		{"breaks within an event", []reply{{body: updated + event("MODIFIED", podAt("a", 3, 12))[:100], end: breaks}}, nil, allHeard[:1], []string{"11"}, 0},
		{"breaks within an event, again and again", []reply{
			{body: event("MODIFIED", podAt("a", 3, 12))[:70], end: breaks}, {body: event("MODIFIED", podAt("a", 3, 12))[:10], end: breaks},
			{body: event("MODIFIED", podAt("a", 3, 12))[:1]}, {end: breaks}},
			nil, nil, []string{"10", "10", "10", "10"}, 0},
		{"breaks between two", []reply{{body: updated, end: breaks}}, nil, allHeard[:1], []string{"11"}, 0},

		// What the server has to say.
		{"410 Gone", []reply{{body: updated + event("ERROR", failure(http.StatusGone, "Expired")) + all}}, []reply{gone}, []string{"updated a 1→2", "updated a 2→5"}, []string{"50"}, 0},
		{"410 Gone, pretty-printed, and its object first", []reply{{body: pretty(swapped(event("ERROR", failure(http.StatusGone, "Expired"))))}},
			[]reply{gone}, []string{"updated a 1→5"}, []string{"50"}, 0},
		{"429 Too Many Requests", []reply{{body: updated + event("ERROR", failure(http.StatusTooManyRequests, "TooManyRequests")) + all}}, nil, allHeard[:1], []string{"11"}, 0},
		{"500 Internal Error", []reply{{body: updated + event("ERROR", failure(http.StatusInternalServerError, "InternalError"))}},
			[]reply{gone}, []string{"updated a 1→2", "updated a 2→5"}, []string{"50"}, 0},
		{"an error that is no Status", []reply{{body: updated + event("ERROR", podAt("a", 3, 12))}}, []reply{gone}, []string{"updated a 1→2", "updated a 2→5"}, []string{"50"}, 0},
		{"an error that is nothing", []reply{{body: updated + event("ERROR", "null")}}, []reply{gone}, []string{"updated a 1→2", "updated a 2→5"}, []string{"50"}, 0},

		// Answers that are no watch are tried again.
		{"a page of HTML", []reply{{body: "<html>Service Unavailable</html>", status: http.StatusServiceUnavailable, contentType: "text/html"}}, nil, nil, []string{"10"}, 0},
		{"a page of HTML in the place of a watch", []reply{{body: "<html>Please log in</html>", contentType: "text/html"}}, nil, nil, []string{"10"}, 0},
		{"a type that was not asked for", []reply{{body: all, contentType: "application/yaml"}}, nil, nil, []string{"10"}, 0},
		{"a Status", []reply{{body: failure(http.StatusServiceUnavailable, "ServiceUnavailable"), status: http.StatusServiceUnavailable}}, nil, nil, []string{"10"}, 0},
		{"a Status of 200", []reply{{body: failure(http.StatusServiceUnavailable, "ServiceUnavailable")}}, nil, nil, []string{"10"}, 0},
	}
	var running sync.WaitGroup // those with an error wait for client-go's backoff
	defer running.Wait()
	for _, c := range cases {
		running.Go(func() {
			for _, by := range ways {
				if !by.suits(c.watch) {
					continue
				}
				t.Run(c.reason+", "+by.name, func(t *testing.T) {
					s := &script{
						by:      by,
						lists:   append([]reply{{body: podList(`"resourceVersion":"10"`, podAt("a", 1, 5))}}, c.relist...),
						watches: append(c.watch[:len(c.watch):len(c.watch)], reply{body: event("ADDED", podAt("end", 1, 90)), end: stays}),
					}
					i, e := s.follow(t)
					e.expect(t, append(append([]string{"synced a 1"}, c.heard...), "added end 1")...)
					if diff := cmp.Diff(append([]string{"10"}, c.from...), s.asked()); diff != "" {
						t.Errorf("watches began elsewhere (-want +got):\n%s", diff)
					}
					if n := i.Stats().Unreadable; n != uint64(c.unreadable) {
						t.Errorf("%d objects are counted that could not be read, want %d", n, c.unreadable)
					}
				})
			}
		})
	}
}

// However far an event has come when its connection ends, in good order or not, it is told only by the watch that brings
// all of it; and nothing is listed again.
func TestWatchesCutAnywhere(t *testing.T) {
	modified, added, deleted := event("MODIFIED", podAt("a", 2, 11)), spaced(event("ADDED", podAt("b", 1, 12))), pretty(event("DELETED", podAt("b", 1, 13)))
	for _, by := range []way{atOnce, compressed} {
		t.Run(by.name, func(t *testing.T) {
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
				t.Errorf("watches began elsewhere (-want +got):\n%s", diff)
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

// swapped has the object before its type.
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
