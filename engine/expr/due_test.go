package expr

import (
	"testing"
	"time"
)

func TestTime(t *testing.T) {
	tree := map[string]any{"at": "2026-01-02T03:04:05Z", "n": int64(1)}
	for _, test := range []struct {
		text, err string
		want      time.Time
		ok        bool
	}{
		{`time(object.at) + duration("1h")`, "", time.Date(2026, 1, 2, 4, 4, 5, 0, time.UTC), true},
		{"object.none", "", time.Time{}, false},
		{"time(object.none)", "", time.Time{}, false},
		{"object.at", "the expression gives a string, not a time: write time(…) around it", time.Time{}, false},
		{"object.n", "the expression gives an int, not a time", time.Time{}, false},
		{`time("9999-12-31T23:00:00Z") + (time(object.at) - time(object.at)) + duration("2h")`, "the expression gives a time outside of the years 1 to 9999", time.Time{}, false},
	} {
		p, err := Compile(test.text, Options{Scope: Due})
		if err != nil {
			t.Fatal(err)
		}
		at, ok, err := p.Time(&Env{Object: tree})
		if test.err == "" && err == nil || err != nil && err.Error() == test.err {
			if ok == test.ok && at.Equal(test.want) {
				continue
			}
		}
		t.Errorf("%s gives %s, %t, %v; want %s, %t, %s", test.text, at, ok, err, test.want, test.ok, test.err)
	}
}
