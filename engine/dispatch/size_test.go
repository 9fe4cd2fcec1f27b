package dispatch

import (
	"testing"
	"unsafe"

	"github.com/informd/informd/engine/delivery"
)

// A delivery that waits is allocated with what engine/queue keeps beside it. Go rounds that up to its
// size classes, so eight bytes more can cost 32. A 32-bit system has smaller ones.
func TestWaitingDeliveriesStayInTheirSizeClass(t *testing.T) {
	const most, beside = 288, 104
	if n := unsafe.Sizeof(delivery.Delivery{}) + beside; n > most {
		t.Errorf("a delivery that waits takes %d bytes; want at most %d", n, most)
	}
}
