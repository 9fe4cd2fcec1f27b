package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// Changes names the sources and rules that are not the same in two configurations, as "rule crashes
// changed" or "source pods is gone": sources first, each kind sorted by name. Where a manifest
// stands does not matter.
func Changes(was, now *Config) (changes []string) {
	source := func(s Source) string { return s.Name }
	rule := func(r Rule) string { return r.Name }
	return append(
		differences("source", textsOf(was.Sources, source), textsOf(now.Sources, source)),
		differences("rule", textsOf(was.Rules, rule), textsOf(now.Rules, rule))...)
}

// textsOf returns what each manifest says, by its name. Equal texts mean equal manifests: the JSON
// of a Text is its value alone.
func textsOf[M any](manifests []M, name func(M) string) map[string][]byte {
	all := make(map[string][]byte, len(manifests))
	for _, m := range manifests {
		all[name(m)], _ = json.Marshal(m) // everything in a Config can be written
	}
	return all
}

func differences(kind string, was, now map[string][]byte) (differences []string) {
	all := maps.Clone(was)
	maps.Copy(all, now)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		before, isOld := was[name]
		after, isStill := now[name]
		switch {
		case !isOld:
			differences = append(differences, kind+" "+name+" is new")
		case !isStill:
			differences = append(differences, kind+" "+name+" is gone")
		case !bytes.Equal(before, after):
			differences = append(differences, kind+" "+name+" changed")
		}
	}
	return differences
}
