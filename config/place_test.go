package config

import "testing"

func TestPlacesInAConfig(t *testing.T) {
	text := `apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: h}
spec:
  builtin: exec
  config:
    command: [./a, b]
    routes:
    - {channel: x, example.com/team.a: {b: 1}, example: 2}
`
	c, _ := Parse([]File{{Path: "a.yaml", Data: []byte(text)}})
	for path, want := range map[string]string{
		"":                               "a.yaml:6:3",
		"none":                           "a.yaml:6:3",
		"command":                        "a.yaml:7:5",
		"command[1]":                     "a.yaml:7:20",
		"command[7]":                     "a.yaml:7:5",
		"command[x]":                     "a.yaml:7:5",
		"command.a.b":                    "a.yaml:7:5",
		"commands":                       "a.yaml:6:3",
		"routes.0.channel":               "a.yaml:9:8",
		"routes[0].channel":              "a.yaml:9:8",
		"routes[0].example.com/team.a.b": "a.yaml:9:41",
		"routes[0].example.c":            "a.yaml:9:48",
	} {
		if got := c.Handlers[0].ConfigAt.Find(path).Position(0).String(); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if !(Place{}).Find("a").IsZero() {
		t.Error("the zero Place finds something")
	}
}
