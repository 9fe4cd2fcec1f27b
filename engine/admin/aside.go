package admin

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/intake"
	"github.com/informd/informd/engine/live"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/running"
)

// asidesOf returns the changes that are set aside, in order.
func (d *Desk) asidesOf(w *running.Work) (all []AsideStatus) {
	for _, one := range d.asides.All() {
		status := AsideStatus{Aside: one}
		for _, in := range w.Intakes {
			if in.ID == one.Informer {
				status.Rules = namesOf(in.Rules)
			}
		}
		all = append(all, status)
	}
	slices.SortFunc(all, func(a, b AsideStatus) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource),
			cmp.Compare(a.Object.String(), b.Object.String()), cmp.Compare(a.Informer, b.Informer))
	})
	return all
}

func namesOf(rules []*live.Rule) (names []string) {
	for _, r := range rules {
		names = append(names, r.Name)
	}
	return names
}

// whyAside says that a rule misses a change of an object that is set aside. It returns "" if there is
// none.
func (d *Desk) whyAside(r *live.Rule, key delta.Key) string {
	for _, a := range d.asides.All() {
		isOf := func(in *intake.Intake) bool { return in.ID == a.Informer && slices.Contains(in.Rules, r) }
		if a.Object == key && slices.ContainsFunc(d.present.Work().Intakes, isOf) {
			return fmt.Sprintf("informd has set aside the object's resourceVersion %s, because it died "+
				"%d times while it evaluated that: informd rule retry evaluates it nevertheless",
				a.Version, a.Deaths)
		}
	}
	return ""
}

// retryAsides has the changes evaluated that were set aside and that a rule misses: those of one
// object, or all if object is "". It returns how many they are.
func (d *Desk) retryAsides(r *live.Rule, object string) (n int) {
	for _, in := range d.present.Work().Intakes {
		if slices.Contains(in.Rules, r) {
			n += retryAsides(in, object)
		}
	}
	return n
}

// retryAsides does the work of Desk.retryAsides for one informer.
func retryAsides(in *intake.Intake, named string) (n int) {
	for _, key := range in.Asides() {
		if of := delta.ParseKey(key); named != "" && named != of.Name && named != key {
			continue
		}
		in.Look(func(is *intake.Intake, get func(string) *object.Object) {
			if is.RetryAside(key, get) {
				n++
			}
		})
	}
	return n
}
