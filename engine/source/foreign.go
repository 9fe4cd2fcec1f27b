package source

import (
	"errors"
	"fmt"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/object/scan"
)

// refuse marks an entry unfit if it is none of the objects that the informer asked for. It must be
// called before the text that the entry was read from changes.
func (r *entryReader) refuse(e *entry) {
	if e.arrival.unfit != nil {
		return
	}
	if fault := r.foreign(e.Object, e.arrival.tree); fault != nil {
		e.arrival.tree.Release()
		e.values, e.arrival = nil, &arrival{unfit: fault, isForeign: true}
	}
}

// foreign returns why an object is none of those that the informer asked for, or nil. An API server
// is not trusted for that. An object without a kind or an apiVersion passes, because API servers
// leave them out in lists. The kind is that of the first object of the generation: a selection
// names a resource.
func (r *entryReader) foreign(o *object.Object, tree *object.Tree) error {
	if space := r.selection.Namespace; space != "" && o.Namespace() != space {
		return fmt.Errorf("it is in namespace %.64q, and not in %s", o.Namespace(), space)
	}
	apiVersion, kind := tree.Types()
	if apiVersion != nil && !isText(apiVersion, r.selection.Resource.GroupVersion().String()) {
		return fmt.Errorf("its apiVersion is %.64s, and not %s",
			apiVersion, r.selection.Resource.GroupVersion())
	}
	if kind == nil {
		return nil
	}
	first := r.kind.Load()
	if first == nil {
		if len(kind) > maxKind || kind[0] != '"' {
			return errors.New("its kind is no name")
		}
		text := string(kind)
		if r.kind.CompareAndSwap(nil, &text) {
			return nil
		}
		first = r.kind.Load()
	}
	if first == nil || string(kind) != *first { // nil: another generation begins
		return fmt.Errorf("its kind is %.64s, and not %s", kind, *first)
	}
	return nil
}

// maxKind is more than the length of any kind.
const maxKind = 256

// isText reports whether quoted is the JSON of text. A server may escape the slash.
func isText(quoted []byte, text string) bool {
	return quoted[0] == '"' && (string(quoted[1:len(quoted)-1]) == text || scan.Unquote(quoted) == text)
}
