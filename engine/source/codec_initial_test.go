package source

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What the initial events of a WatchList may be, and what becomes of them. Behind each case comes a watch that brings pod
// end.
func TestCodecOfInitialEvents(t *testing.T) {
	a, b := event("ADDED", podAt("a", 1, 5)), event("ADDED", podAt("b", 2, 6))
	end := event("BOOKMARK", `{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"10","annotations":{"k8s.io/initial-events-end":"true"}}}`)
	both := []string{"synced a 1", "synced b 2"}
	list := []reply{{body: podList(`"resourceVersion":"30"`, podAt("a", 3, 25))}}
	usual := reply{body: a + b + end}

	cases := []struct {
		reason     string
		watch      []reply
		list       []reply
		heard      []string
		from       []string // where each watch begins: the first nowhere
		unreadable int
	}{
		{"a line for each", []reply{usual}, nil, both, []string{"", "10"}, 0},
		{"nothing in between", []reply{{body: strings.ReplaceAll(usual.body, "\n", "")}}, nil, both, []string{"", "10"}, 0},
		{"pretty-printed, and objects first", []reply{{body: pretty(swapped(usual.body))}}, nil, both, []string{"", "10"}, 0},
		{"space everywhere", []reply{{body: spaced(usual.body)}}, nil, both, []string{"", "10"}, 0},
		{"an escaped end", []reply{{body: strings.NewReplacer(`k8s.io/`, `k8s.io\/`, `"true"`, `"\u0074rue"`, `"annotations"`, `"\u0061nnotations"`).Replace(usual.body)}},
			nil, both, []string{"", "10"}, 0},
		{"no objects", []reply{{body: end}}, nil, nil, []string{"", "10"}, 0},
		{"changes behind the end", []reply{{body: usual.body + event("MODIFIED", podAt("a", 4, 11)) + event("DELETED", podAt("b", 2, 12))}},
			nil, append(both[:2:2], "updated a 1→4", "deleted b 2"), []string{"", "12"}, 0},
		{"changes among them", []reply{{body: a + b + event("MODIFIED", podAt("a", 4, 7)) + event("DELETED", podAt("b", 2, 8)) + end}}, nil, []string{"synced a 4"}, []string{"", "10"}, 0},
		{"bookmarks that are not the end", []reply{{body: event("BOOKMARK", bookmarkAt(3)) + a + strings.Replace(end, `"true"`, `"false"`, 1) + b + end}}, nil, both, []string{"", "10"}, 0},
		{"what is no object of ours", []reply{{body: event("ADDED", "null") + a + event("ADDED", `{"metadata":{}}`) + event("ADDED", strings.Replace(podAt("c", 3, 7), `"v":3`, `"v":1e999`, 1)) + b + end}},
			nil, both, []string{"", "10"}, 3},
		{"410 Gone behind the end, and all again", []reply{{body: usual.body + event("ERROR", failure(http.StatusGone, "Expired"))},
			{body: event("ADDED", podAt("b", 7, 21)) + strings.Replace(end, `"10"`, `"22"`, 1)}},
			nil, append(both[:2:2], "deleted a 1", "updated b 2→7"), []string{"", "10", "22"}, 0},

		// A state that is not complete is none.
		{"ends before the end", []reply{{body: event("ADDED", podAt("c", 3, 4)) + a}, usual}, nil, both, []string{"", "", "10"}, 0},
		{"breaks before the end", []reply{{body: event("ADDED", podAt("c", 3, 4)) + a + b[:50], end: breaks}, usual}, nil, both, []string{"", "", "10"}, 0},
		{"breaks within the end", []reply{{body: event("ADDED", podAt("c", 3, 4)) + a + b + end[:len(end)-3], end: breaks}, usual}, nil, both, []string{"", "", "10"}, 0},
		{"410 Gone among them", []reply{{body: event("ADDED", podAt("c", 3, 4)) + event("ERROR", failure(http.StatusGone, "Expired"))}, usual}, nil, both, []string{"", "", "10"}, 0},
		{"not JSON among them", []reply{{body: event("ADDED", podAt("c", 3, 4)) + a + "<html>"}}, list, []string{"synced a 3"}, []string{"", "30"}, 0},
		{"429 among them", []reply{{body: event("ADDED", podAt("c", 3, 4)) + event("ERROR", failure(http.StatusTooManyRequests, "TooManyRequests"))}}, list, []string{"synced a 3"}, []string{"", "30"}, 0},
		{"a page of HTML", []reply{{body: "<html>Please log in</html>", contentType: "text/html"}, usual}, nil, both, []string{"", "", "10"}, 0},
		{"a page of HTML that says so", []reply{{body: "<html>Bad Gateway</html>", contentType: "text/html", status: http.StatusBadGateway}}, list, []string{"synced a 3"}, []string{"", "30"}, 0},
	}
	var running sync.WaitGroup // after 410 they wait for client-go's backoff
	defer running.Wait()
	for _, c := range cases {
		running.Go(func() {
			for _, by := range ways {
				t.Run(c.reason+", "+by.name, func(t *testing.T) {
					s := &script{
						by: by, watchList: true, lists: c.list,
						watches: append(c.watch[:len(c.watch):len(c.watch)], reply{body: event("ADDED", podAt("end", 1, 90)), end: stays}),
					}
					i, e := s.follow(t)
					synced := slices.IndexFunc(append(c.heard, "end"), func(word string) bool { return !strings.HasPrefix(word, "synced") })
					if synced > 0 {
						e.expectAll(t, slices.Clone(c.heard[:synced])...)
					}
					e.expect(t, append(slices.Clone(c.heard[synced:]), "added end 1")...)
					if diff := cmp.Diff(c.from, s.asked()); diff != "" {
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
