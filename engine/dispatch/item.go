package dispatch

import (
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/queue"
)

// deliveries is the queue of a lane, and item what it hands out.
type (
	deliveries = queue.Queue[delta.Key, delivery.Delivery]
	item       = queue.Item[delta.Key, delivery.Delivery]
)
