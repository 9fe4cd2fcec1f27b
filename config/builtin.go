package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Builtins check their own config when they start. What is here depends on more of the manifests
// than that. A config that cannot be read is no mistake here: the builtin reports it.

// execWrites checks that the commands of exec can ask for the changes that the manifest allows.
func (r *reader) execWrites(h Handler, spec mapping) {
	var c struct{ Answers, Lines bool }
	if h.Builtin != "exec" || len(h.Write) == 0 || json.Unmarshal(h.Config, &c) != nil {
		return
	}
	if !c.Answers && !c.Lines {
		r.mistake(spec.key["access"], "spec.access.write does nothing here: a command of exec "+
			"asks for changes in its answers, so set answers: true or lines: true in spec.config")
	}
}

// checkPayloads checks that the rules of a webhook that posts payloads have one, and that those of
// a webhook that reads the object have none: a payload replaces the object.
func (p *parser) checkPayloads() {
	posts, reads := make(map[string]bool), make(map[string]string)
	for _, h := range p.config.Handlers {
		var c struct {
			Format  string
			URL     string
			Headers map[string]string
			Body    json.RawMessage
		}
		if h.Builtin != "webhook" || json.Unmarshal(h.Config, &c) != nil {
			continue
		}
		posts[h.Name] = c.Format == "payload"
		texts := append(slices.Sorted(maps.Values(c.Headers)), c.URL)
		if c.Format == "template" {
			texts = append(texts, strings.ReplaceAll(string(c.Body), `\"`, `"`))
		}
		reads[h.Name] = ofObject.FindString(strings.Join(texts, "\n"))
	}
	for _, r := range p.config.Rules {
		switch {
		case posts[r.Handler] && r.Payload == nil:
			p.mistakes = append(p.mistakes, r.HandlerAt.Mistake(0, fmt.Sprintf(
				"handler %s posts the rule's payload, because its format is payload: "+
					"give the rule a spec.payload", r.Handler)))
		case reads[r.Handler] != "" && r.Payload != nil:
			p.mistakes = append(p.mistakes, r.HandlerAt.Mistake(0, fmt.Sprintf(
				"the config of handler %s reads %s, and the events of this rule have no object, "+
					"because it has a payload: add what is missing to the payload, and read "+
					"${payload.NAME}", r.Handler, clip(reads[r.Handler], maxQuoted))))
		}
	}
}

// ofObject matches an expression that is a field of the object and nothing else. Others may do
// without an object.
var ofObject = regexp.MustCompile(`\$\{\s*object(\.\w+|\[[^\[\]{}?]*\])*\s*\}`)
