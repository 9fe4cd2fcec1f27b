package engine

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
)

// informerID is what an informer's state is kept under.
func informerID(i *plan.Informer) string {
	return fmt.Sprintf("%s %q %q %q", resourceName(i.Resource), i.Namespace, i.LabelSelector, i.FieldSelector)
}

// kept is which paths the informer keeps, for the state: "" is all of an object.
func kept(p *object.Paths) string {
	if p == nil {
		return ""
	}
	text, err := json.Marshal(p.List())
	if err != nil {
		panic(err) // strings have no errors
	}
	return string(text)
}

// covers tells whether objects of which saved was kept have all that is to be kept now.
func covers(saved string, now *object.Paths) bool {
	if saved == "" {
		return true
	}
	var paths [][]string
	if json.Unmarshal([]byte(saved), &paths) != nil || now == nil {
		return false
	}
	have := new(object.Paths)
	for _, path := range paths {
		have.Add(path...)
	}
	return !slices.ContainsFunc(now.List(), func(path []string) bool { return !have.Covers(path...) })
}
