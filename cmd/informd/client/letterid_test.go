package client

import (
	"slices"
	"testing"

	"github.com/informd/informd/cmd/informd/control"
)

// Each short id stands for its letter alone, and is as short as it may be.
func TestShortIDs(t *testing.T) {
	const web, db, like = "4751dc2f-b708-42a3-a823-6098a3cea0e4",
		"0bc5bc61-d8c3-492d-83d0-b3760dd2bfc3", "4751dc2f-0000-42a3-a823-6098a3cea0e4"
	tests := map[string]struct{ ids, want []string }{
		"one letter of an object": {
			[]string{"r/" + web + "/added/1", "r/" + db + "/added/1", "s/" + web + "/added/1"},
			[]string{"r/4751dc2f", "r/0bc5bc61", "s/4751dc2f"},
		},
		"several": {
			[]string{"r/" + web + "/added/1", "r/" + web + "/updated/2", "r/" + web + "/updated/21"},
			[]string{"r/4751dc2f/added", "r/4751dc2f/updated/2", "r/4751dc2f/updated/21"},
		},
		"rounds of a resync": {
			[]string{"r/" + web + "/synced/1", "r/" + web + "/synced/1/7"},
			[]string{"r/" + web + "/synced/1", "r/4751dc2f/synced/1/7"},
		},
		"uids that begin alike": {
			[]string{"r/" + web + "/added/1", "r/" + like + "/added/1"},
			[]string{"r/" + web + "/added/1", "r/" + like + "/added/1"},
		},
		"no uid, or another form of id": {
			[]string{"r//added/1", "r//added/2", "x"}, []string{"r//added/1", "r//added/2", "x"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var letters []control.Letter
			for _, id := range test.ids {
				letters = append(letters, control.Letter{ID: id})
			}
			short := shortIDs(letters)
			if !slices.Equal(short, test.want) {
				t.Errorf("%q, want %q", short, test.want)
			}
			for i, id := range short {
				for j, l := range letters {
					if means(l.ID, id) != (i == j) && id != letters[i].ID {
						t.Errorf("%s stands for %s: %v", id, l.ID, i != j)
					}
				}
			}
		})
	}
}

func TestMeans(t *testing.T) {
	const id = "r/4751dc2f-b708/updated/213"
	for ref, want := range map[string]bool{
		id: true, "r": true, "r/": true, "r/4": true, "r/4751dc2f/updated": true, "r/4/updated/213": true,
		"": false, "r/5": false, "ru": false, "r/4/up": false, "r/4/updated/21": false, id + "/1": false, id + "/": false,
	} {
		if means(id, ref) != want {
			t.Errorf("%q: %v, want %v", ref, !want, want)
		}
	}
}
