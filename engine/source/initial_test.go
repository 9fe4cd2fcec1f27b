package source

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The cases are initial events of a WatchList, and what the informer makes of them. After each case
// a watch brings pod end.
func TestInitialEventBodies(t *testing.T) {
	t.Parallel()
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
		from       string // the position at which each watch begins
		unreadable int
	}{
		{reason: "a line for each", watch: []reply{usual}, heard: both, from: "nowhere 10"},
		{reason: "nothing in between", watch: []reply{{body: strings.ReplaceAll(usual.body, "\n", "")}}, heard: both, from: "nowhere 10"},
		{reason: "pretty-printed, and objects first", watch: []reply{{body: pretty(swapped(usual.body))}}, heard: both, from: "nowhere 10"},
		{reason: "space everywhere", watch: []reply{{body: spaced(usual.body)}}, heard: both, from: "nowhere 10"},
		{reason: "an escaped end",
			watch: []reply{{body: strings.NewReplacer(`k8s.io/`, `k8s.io\/`, `"true"`, `"\u0074rue"`, `"annotations"`, `"\u0061nnotations"`).Replace(usual.body)}},
			heard: both, from: "nowhere 10"},
		{reason: "no objects", watch: []reply{{body: end}}, from: "nowhere 10"},
		{reason: "changes behind the end",
			watch: []reply{{body: usual.body + event("MODIFIED", podAt("a", 4, 11)) + event("DELETED", podAt("b", 2, 12))}},
			heard: append(both[:2:2], "updated a 1→4", "deleted b 2"), from: "nowhere 12"},
		{reason: "changes among them",
			watch: []reply{{body: a + b + event("MODIFIED", podAt("a", 4, 7)) + event("DELETED", podAt("b", 2, 8)) + end}},
			heard: []string{"synced a 4"}, from: "nowhere 10"},
		{reason: "one of them that can be read no more",
			watch: []reply{{body: a + b + event("MODIFIED", strings.Replace(podAt("a", 3, 7), `"v":3`, `"v":1e999`, 1)) + end}},
			heard: both[1:], from: "nowhere 10", unreadable: 1},
		{reason: "bookmarks that are not the end",
			watch: []reply{{body: event("BOOKMARK", bookmarkAt(3)) + a + strings.Replace(end, `"true"`, `"false"`, 1) + b + end}},
			heard: both, from: "nowhere 10"},
		{reason: "what is no object of ours",
			watch: []reply{{body: event("ADDED", "null") + a + event("ADDED", `{"metadata":{}}`) + event("ADDED", strings.Replace(podAt("c", 3, 7), `"v":3`, `"v":1e999`, 1)) + b + end}},
			heard: both, from: "nowhere 10", unreadable: 3},
		{reason: "410 Gone behind the end, and all again",
			watch: []reply{{body: usual.body + event("ERROR", failure(http.StatusGone, "Expired"))}, {body: event("ADDED", podAt("b", 7, 21)) + strings.Replace(end, `"10"`, `"22"`, 1)}},
			heard: append(both[:2:2], "updated b 2→7", "deleted a 1"), from: "nowhere 10 22"},

		// An incomplete initial state does not count.
		{reason: "ends before the end", watch: []reply{{body: event("ADDED", podAt("c", 3, 4)) + a}, usual}, heard: both, from: "nowhere nowhere 10"},
		{reason: "breaks before the end",
			watch: []reply{{body: event("ADDED", podAt("c", 3, 4)) + a + b[:50], end: breaks}, usual},
			heard: both, from: "nowhere nowhere 10"},
		{reason: "breaks within the end",
			watch: []reply{{body: event("ADDED", podAt("c", 3, 4)) + a + b + end[:len(end)-3], end: breaks}, usual},
			heard: both, from: "nowhere nowhere 10"},
		{reason: "410 Gone among them",
			watch: []reply{{body: event("ADDED", podAt("c", 3, 4)) + event("ERROR", failure(http.StatusGone, "Expired"))}, usual},
			heard: both, from: "nowhere nowhere 10"},
		{reason: "not JSON among them",
			watch: []reply{{body: event("ADDED", podAt("c", 3, 4)) + a + "<html>"}},
			list:  list, heard: []string{"synced a 3"}, from: "nowhere 30"},
		{reason: "429 among them",
			watch: []reply{{body: event("ADDED", podAt("c", 3, 4)) + event("ERROR", failure(http.StatusTooManyRequests, "TooManyRequests"))}},
			list:  list, heard: []string{"synced a 3"}, from: "nowhere 30"},
		{reason: "a page of HTML",
			watch: []reply{{body: "<html>Please log in</html>", contentType: "text/html"}, usual},
			heard: both, from: "nowhere nowhere 10"},
		{reason: "a page of HTML that says so",
			watch: []reply{{body: "<html>Bad Gateway</html>", contentType: "text/html", status: http.StatusBadGateway}},
			list:  list, heard: []string{"synced a 3"}, from: "nowhere 30"},
	}
	for _, c := range cases {
		for _, by := range ways {
			t.Run(c.reason+", "+by.name, func(t *testing.T) {
				t.Parallel()
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
				if diff := cmp.Diff(strings.Fields(c.from), s.asked()); diff != "" {
					t.Errorf("watches began at other positions (-want +got):\n%s", diff)
				}
				if n := i.Stats().Unreadable; n != uint64(c.unreadable) {
					t.Errorf("%d unreadable objects were counted, want %d", n, c.unreadable)
				}
			})
		}
	}
}
