package config

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"
)

func TestEquivalentSelectorsAreEqual(t *testing.T) {
	for want, texts := range map[string][]string{
		"":                       {"", " "},
		"app=x,tier=web":         {"app=x,tier=web", "tier == web, app in (x)", "tier in (web),app=x,app=x"},
		"tier!=web":              {"tier != web", "tier notin (web)"},
		"tier in (db,web)":       {"tier in (web, db)", "tier in (db,web,db)"},
		"!gone,n>3,n<9,there":    {"there, !gone, n > 3, n < 9", "n<9,n>3,!gone,there"},
		"tier notin (db,web)":    {"tier notin (web,db)"},
		"tier,tier=web,tier!=db": {"tier notin (db), tier in (web), tier"},
	} {
		for _, text := range texts {
			selector, err := labels.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			first, err := labels.Parse(want)
			if err != nil {
				t.Fatal(err)
			}
			got := canonical(selector)
			if got != canonical(first) {
				t.Errorf("%q becomes %q, and %q becomes %q", text, got, want, canonical(first))
			}
			if again, err := labels.Parse(got); err != nil || canonical(again) != got {
				t.Errorf("%q becomes %q, which does not parse to itself: %v", text, got, err)
			}
		}
	}
}
