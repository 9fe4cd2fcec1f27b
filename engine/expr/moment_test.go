package expr

import (
	"strings"
	"testing"
	"time"
)

func TestMoment(t *testing.T) {
	p, err := Compile(`moment() == nil ? "none" : string(moment())`, Options{Scope: When})
	if err != nil {
		t.Fatal(err)
	}
	berlin := time.FixedZone("", 3600)
	for want, at := range map[string]time.Time{
		"none":                 {},
		"2026-01-02T07:00:00Z": time.Date(2026, 1, 2, 8, 0, 0, 0, berlin),
	} {
		if got, err := p.Value(&Env{Moment: at}); got != want || err != nil {
			t.Errorf("%v, %v; want %s", got, err, want)
		}
	}
	for text, want := range map[string]string{
		"moment() > now()": "moment()",
		"moment(1) == nil": "moment",
	} {
		scope := Where
		if strings.Contains(text, "1") {
			scope = When
		}
		if _, err := Compile(text, Options{Scope: scope}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
