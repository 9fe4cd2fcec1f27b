package source

import "github.com/informd/informd/engine/object"

// ordered is an index of one store, beside client-go's own. It has the same objects under the same
// values, but sorted, and ready to be handed out without a copy. The store's lock guards it, because
// only client-go calls what changes or reads it: see indexFunc.
type ordered map[string]indexed

// indexed is what an index has under one value: one object, or a set of several. Most values of most
// indexes have one object.
type indexed struct {
	only *object.Object
	many *object.Sorted
}

// question asks an index function for the objects under a value.
type question struct {
	value  string
	answer object.Bucket
}

// turn removes an object that is there, and adds one that is not. client-go calls an index function
// with the old state of an object and then with the new one, and does not say which is which. But
// it never adds what it has, nor removes what it has not, and an entry's values never change.
func (x ordered) turn(values []string, o *object.Object) {
	if len(values) == 0 {
		return
	}
	isThere := x.has(values[0], o)
	for _, value := range values { // the same value may come twice
		if isThere {
			x.remove(value, o)
		} else {
			x.put(value, o)
		}
	}
}

func (x ordered) has(value string, o *object.Object) bool {
	at := x[value]
	return at.only == o || at.many != nil && at.many.Has(o)
}

func (x ordered) put(value string, o *object.Object) {
	switch at := x[value]; {
	case at.many != nil:
		at.many.Put(o)
	case at.only == nil || object.Compare(at.only, o) == 0:
		x[value] = indexed{only: o}
	default:
		many := new(object.Sorted)
		many.Put(at.only)
		many.Put(o)
		x[value] = indexed{many: many}
	}
}

func (x ordered) remove(value string, o *object.Object) {
	at := x[value]
	if at.many == nil {
		if at.only == o {
			delete(x, value)
		}
		return
	}
	at.many.Remove(o)
	if at.many.Len() > 1 {
		return
	}
	for only := range at.many.Bucket().All() {
		x[value] = indexed{only: only}
	}
}

// under returns the objects that the index has under a value.
func (x ordered) under(value string) object.Bucket {
	switch at := x[value]; {
	case at.many != nil:
		return at.many.Bucket()
	case at.only != nil:
		return object.BucketOfOne(at.only)
	}
	return object.Bucket{}
}
