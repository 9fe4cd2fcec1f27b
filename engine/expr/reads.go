package expr

import "github.com/informd/informd/engine/object"

// functionReads says what functions do with the shapes of their arguments. The others use them all.
var functionReads = map[string]func(r *reach, args []shape) shape{
	"len":     size,
	"type":    kind,
	"first":   element,
	"last":    element,
	"take":    take,
	"reverse": elements,
	"concat":  elements,
	"flatten": flatten,
	"get":     dynamicKey,
}

// elements is for functions that give some elements of a list, as a list.
func elements(r *reach, args []shape) shape {
	var elem shape
	for _, s := range args {
		r.touch(s)
		elem = r.union(elem, r.elem(s))
	}
	return made(elem)
}

// element is for functions that give one element.
func element(r *reach, args []shape) shape {
	r.touch(args[0])
	return r.elem(args[0])
}

// size is for len. The elements of a list that the expression made do not matter to it.
func size(r *reach, args []shape) shape {
	r.use(shape{places: args[0].places})
	return shape{}
}

// kind is for type.
func kind(r *reach, args []shape) shape {
	r.touch(args[0])
	return shape{}
}

// dynamicKey is for get with a key that is not constant.
func dynamicKey(r *reach, args []shape) shape {
	r.use(args[1])
	return r.member(args[0], object.Each)
}
func take(r *reach, args []shape) shape {
	r.use(args[1])
	return elements(r, args[:1])
}

// flatten takes whole objects as maps, which stay as they are. What lies further down may be a
// list.
func flatten(r *reach, args []shape) shape {
	r.touch(args[0])
	var add func(s shape) shape
	add = func(s shape) (out shape) {
		r.touch(s) // flatten leaves out nils
		for _, at := range s.places {
			if len(at.path) == 0 {
				out.places = append(out.places, at)
			} else {
				r.use(shape{places: []spot{at}})
			}
		}
		if s.keyed {
			out.elem, out.keyed = s.elem, true
		}
		if s.elem != nil { // of a list, which flatten takes apart
			out = r.union(out, add(*s.elem))
		}
		return out
	}
	return made(add(r.elem(args[0])))
}
