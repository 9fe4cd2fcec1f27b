package manifests

import (
	"context"
	"time"
)

// Watch calls changed whenever Load might read something else at the paths than before, and it has
// stayed the same for a second. loaded is the Fingerprint from before they were last read. If
// changed returns true, Watch calls it again. It returns when ctx ends.
func Watch(ctx context.Context, paths []string, loaded string, changed func() (again bool)) {
	before := ""
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now := Fingerprint(paths)
		if now == before && now != loaded && !changed() {
			loaded = now
		}
		before = now
	}
}
