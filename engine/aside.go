package engine

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/informd/informd/engine/intake"
	"github.com/informd/informd/engine/running"
	"github.com/informd/informd/engine/state/steps"
)

// resumeAsides sets aside the changes in whose steps informd has died too often, and those that it
// has set aside before.
func (e *Engine) resumeAsides(ctx context.Context, from loaded) {
	notes := make(map[string][]byte)
	for id, value := range from.notes {
		if id.rule == noRule && strings.HasPrefix(id.name, intake.AsideNote) {
			notes[id.name] = value
		}
	}
	deadly := steps.Deadly(e.parts.Clock.Now(), unsettled(e.steps(ctx), notes))
	var added []intake.Aside
	end := e.begin()
	for name, value := range notes {
		if !intake.IsNeeded(value, e.present.Intakes().IDs(), e.parts.Clock.Now()) {
			e.store.DeleteNote(noRule, name)
		}
	}
	values := slices.Collect(maps.Values(notes))
	for _, in := range e.work().Intakes {
		added = append(added, in.ResumeAsides(values, deadly)...)
	}
	end()
	for _, a := range added {
		e.log.Error("informd died again and again while it evaluated this change: it sets the change "+
			"aside, and goes on with the object's next one. Please report this, with what informd wrote "+
			"when it died. To evaluate the change nevertheless: informd rule retry RULE OBJECT",
			"resource", a.Resource, "object", a.Object.String(), "resourceVersion", a.Version,
			"deaths", a.Deaths, "rules", strings.Join(rulesOf(e.work(), a.Informer), ", "))
	}
}

// unsettled returns the suspects without those of which notes say what became of them.
func unsettled(suspects []steps.Suspect, notes map[string][]byte) (left []steps.Suspect) {
	for _, s := range suspects {
		isSettled := false
		for _, value := range notes {
			isSettled = isSettled || intake.Settles(value, s)
		}
		if !isSettled {
			left = append(left, s)
		}
	}
	return left
}

// rulesOf returns the names of the rules that see an informer.
func rulesOf(w *running.Work, informer string) (names []string) {
	for _, in := range w.Intakes {
		if in.ID != informer {
			continue
		}
		for _, r := range in.Rules {
			names = append(names, r.Name)
		}
	}
	return names
}
