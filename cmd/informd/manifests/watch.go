package manifests

import (
	"context"
	"time"
)

// Watch calls changed whenever Load might read something else at the paths than before, and it has
// stayed the same for a second. It returns when ctx ends.
func Watch(ctx context.Context, paths []string, changed func()) {
	loaded := Fingerprint(paths)
	before := loaded
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now := Fingerprint(paths)
		if now == before && now != loaded {
			loaded = now
			changed()
		}
		before = now
	}
}
