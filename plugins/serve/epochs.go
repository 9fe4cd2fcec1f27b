package serve

import (
	"fmt"
	"slices"
	"sync"

	"github.com/informd/informd/plugins/handler"
)

const (
	// maxEpochs bounds the groups of replicas whose newest epoch a process remembers.
	maxEpochs = 64
	// maxCluster bounds the id of such a group, in bytes. Epochs with a longer one are not compared.
	maxCluster = 64
)

// epochs remembers the newest epoch that the process has seen of each group of replicas. The zero
// epochs has seen none.
type epochs struct {
	mu     sync.Mutex      // guards newest; a leaf
	newest []handler.Epoch // one of each group, the last used first; at most maxEpochs
}

// refuse returns why an event of an epoch must not be handled, or "". It remembers the epoch if it
// is the newest of its group. With no room left, it forgets the group that it has not seen for
// longest.
func (e *epochs) refuse(epoch handler.Epoch) (why string) {
	if epoch.Cluster == "" || len(epoch.Cluster) > maxCluster {
		return "" // of an informd that never had replicas
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	at := slices.IndexFunc(e.newest, func(known handler.Epoch) bool {
		return known.Cluster == epoch.Cluster
	})
	newest := epoch
	if at >= 0 {
		if order, _ := epoch.Compare(e.newest[at]); order < 0 {
			newest = e.newest[at]
			why = fmt.Sprintf("this event comes from an informd that no longer leads: "+
				"epoch %s, newest %s", epoch, newest)
		}
	}
	switch {
	case at < 0 && len(e.newest) < maxEpochs:
		e.newest = append(e.newest, newest)
		at = len(e.newest) - 1
	case at < 0:
		at = maxEpochs - 1
	}
	copy(e.newest[1:at+1], e.newest[:at])
	e.newest[0] = newest
	return why
}
