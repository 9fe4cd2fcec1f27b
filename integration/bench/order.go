package main

import (
	"fmt"
	"strconv"
	"sync"

	"github.com/informd/informd/plugins/handler"
)

// order is that in which a handler gets its events. A nil one takes any.
type order struct {
	mu   sync.Mutex
	last map[string]int64 // resourceVersions, by namespace and name
}

func newOrder() *order { return &order{last: make(map[string]int64)} }

// next is the next event, and an error if a later one of the same object has come before it, or the
// same one.
func (o *order) next(ev handler.Event) error {
	if o == nil {
		return nil
	}
	version, err := strconv.ParseInt(ev.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	object := ev.Namespace + "/" + ev.Name
	o.mu.Lock()
	defer o.mu.Unlock()
	if last := o.last[object]; version <= last {
		return fmt.Errorf("%s: resourceVersion %d comes after %d", object, version, last)
	}
	o.last[object] = version
	return nil
}
