package plan_test

import (
	"strings"
	"testing"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/plan"
)

// Compile takes what Parse leaves of a mistaken configuration. Each case is a mistake of Parse, or of
// an expression, after which something is missing that a later step needs.
func TestCompileGoesOnAfterAMistake(t *testing.T) {
	const source = `
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: s}
spec: {resource: v1/pods, `
	const rule = source + `}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: r}
spec: {source: s, `
	const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
`
	for _, c := range []struct{ text, want string }{
		{source + "indexes: {a: }}", "index \"a\" is empty"},
		{source + "indexes: {a: {}}}", "index \"a\" must be an expression"},
		{source + "indexes: {a: [x]}}", "index \"a\" must be an expression"},
		{source + "indexes: {a: x}}", "unknown name \"x\""},
		{source + "metrics: [{name: a_total, help: A., type: counter}]}", "put it into a Rule"},
		{source + "metrics: [{name: a, help: A., labels: {b: evnt}}]}", "unknown name \"evnt\""},
		{rule + "metrics: [{name: a_total, help: A b., type: counter, labels: {event: evnt}}]}",
			"did you mean event?"},
		{rule + "metrics: [{name: a_total, help: A b., type: counter, value: evnt, labels: {a: [b], c: }}]}",
			"did you mean event?"},
		{rule + "for: 5m, due: }", "spec.due has no value"},
		{rule + "for: 5m, due: []}", "spec.due must be an expression, not a list"},
		{rule + `schedule: {cron: "0 3 * * *"}, resync: }`, "spec.resync has no value"},
		{rule + `schedule: {cron: "0 3 * * *"}, resync: {}}`, "spec.resync must be a duration"},
		{definition + "metadata: {name: a, name: b}", "\"name\" is given twice"},
		{definition + "metadata: {1: a}", "a key must be a string, not the number 1"},
		{definition + "spec: {a: .nan}", "\".nan\" cannot be written as JSON"},
	} {
		cfg, mistakes := config.Parse([]config.File{{Path: "a.yaml", Data: []byte(c.text)}})
		_, more := plan.Compile(cfg)
		if report := append(mistakes, more...).Error(); !strings.Contains(report, c.want) {
			t.Errorf("%s\n%s\nwant %s", c.text, report, c.want)
		}
	}
}
