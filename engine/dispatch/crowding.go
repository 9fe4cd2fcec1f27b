package dispatch

import "context"

// reportCrowding logs which lanes lose history, until ctx ends.
func (d *Dispatcher) reportCrowding(ctx context.Context) {
	for {
		select {
		case l := <-d.crowded:
			l.reports.isCrowded.Store(false)
			if _, ok := l.reports.crowded.Allow(d.opts.Clock.Now(), ""); ok {
				stats := l.Stats()
				attrs := []any{"rule", l.naming.rule,
					"waiting", stats.Waiting, "bytes", stats.Bytes,
					"merged", stats.Shortened, "dropped", stats.Dropped}
				if g := l.gathering(); g != nil {
					s := g.stats()
					attrs = append(attrs, "gathered", s.Items, "forgotten groups", s.Forgotten)
				}
				d.log.Warn("too many changes wait for the handler: the queue merges or drops some",
					attrs...)
			}
		case <-ctx.Done():
			return
		}
	}
}
