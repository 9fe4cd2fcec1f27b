package config

import (
	"encoding/json"
	"fmt"
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

// checkPayloads checks that the rules of a webhook that posts payloads have one.
func (p *parser) checkPayloads() {
	posts := make(map[string]bool)
	for _, h := range p.config.Handlers {
		var c struct{ Format string }
		if h.Builtin == "webhook" && json.Unmarshal(h.Config, &c) == nil {
			posts[h.Name] = c.Format == "payload"
		}
	}
	for _, r := range p.config.Rules {
		if posts[r.Handler] && r.Payload == nil {
			p.mistakes = append(p.mistakes, r.HandlerAt.Mistake(0, fmt.Sprintf(
				"handler %s posts the rule's payload, because its format is payload: "+
					"give the rule a spec.payload", r.Handler)))
		}
	}
}
