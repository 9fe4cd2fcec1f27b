package source

import "context"

// life is how far an informer is on its way from being requested to having ended. It begins at most
// once. Informers.mu guards it, except that anybody may wait for ended.
type life struct {
	isStarted bool               // Informers.Start was called for the informer
	end       context.CancelFunc // ends the informer; nil before it begins
	ended     chan struct{}      // closed when the informer has ended
}

// begin begins the life of an informer that is started, and returns a function that lives it: it
// calls run, which has to return when its context ends. begin returns nil if the informer is not
// started, or has begun already.
func (l *life) begin(ctx context.Context, run func(context.Context)) (live func()) {
	if !l.isStarted || l.end != nil {
		return nil
	}
	own, end := context.WithCancel(ctx)
	l.end = end
	return func() {
		defer close(l.ended)
		defer end()
		run(own)
	}
}
