package cache

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/informd/informd/plugins/handler/wire"
	"github.com/informd/informd/plugins/handlerpb"
)

// account tracks the pages that were made for a connection and not written to it yet. gRPC keeps
// what the process does not read, even after the call has ended, and forgets it when the connection
// ends.
type account struct {
	net.Addr
	pages places
	abort func() // ends the connection

	mu    sync.Mutex // guards the fields below
	out   map[*page]struct{}
	ended bool
}

// accountOf returns the account of the connection that a call came on.
func accountOf(ctx context.Context) *account {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	a, _ := p.Addr.(*account)
	return a
}

// page waits for room and returns an empty page. The caller fills it and passes it to gRPC, or
// calls drop. The error is a gRPC status.
func (a *account) page(ctx context.Context) (*page, error) {
	if err := a.pages.enter(ctx, takeTimeout, "pages of answers waiting to be read"); err != nil {
		return nil, err
	}
	p := &page{account: a}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		a.pages.leave()
		return nil, status.Error(codes.Unavailable, "the connection has ended")
	}
	a.out[p] = struct{}{}
	return p, nil
}

// done returns a page's place. Only the first call counts.
func (a *account) done(p *page) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, is := a.out[p]; is {
		delete(a.out, p)
		a.pages.leave()
	}
}

func (a *account) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	for range a.out {
		a.pages.leave()
	}
	clear(a.out)
}

// page is one message of an answer. It is also the pool to which gRPC returns the page's memory
// once it is written, which is how the page learns of that.
type page struct {
	account *account
	message mem.BufferSlice
	held    atomic.Int32 // pieces of memory with gRPC, plus one while fill adds more
}

var (
	_ mem.BufferPool = (*page)(nil)
	_ wire.Encoded   = (*page)(nil)
)

// Buffers implements wire.Encoded.
func (p *page) Buffers() mem.BufferSlice { return p.message }

// Get implements mem.BufferPool. Nobody calls it.
func (p *page) Get(n int) *[]byte { b := make([]byte, n); return &b }

// Put implements mem.BufferPool.
func (p *page) Put(*[]byte) { p.release() }

func (p *page) release() {
	if p.held.Add(-1) == 0 {
		p.account.done(p)
	}
}

// drop gives up a page that was not passed to gRPC.
func (p *page) drop() { p.account.done(p) }

// maxCopied bounds the bytes of elements that are copied. gRPC does not return memory up to this
// threshold to a pool, so a page would not learn when it is written.
const maxCopied = 1 << 10

// fill fills the page with elements from index from on, and returns the index of the first one that
// it did not take. Large elements are not copied and must never be changed.
func (p *page) fill(all elements, from int) (to int) {
	p.held.Store(1)
	defer p.release()
	size := 0
	text := make([]byte, 0, 2*maxCopied)
	var starts []int    // positions in text before which a piece stands
	var pieces [][]byte // elements that are not copied
	to = from
	for ; to < all.n && to-from < handlerpb.MaxPageElements; to++ {
		e := all.at(to)
		if to > from && size+len(e) > handlerpb.MaxPageBytes {
			break
		}
		size += len(e)
		text = wire.AppendElement(text, len(e))
		if cap(e) <= maxCopied {
			text = append(text, e...)
			continue
		}
		starts, pieces = append(starts, len(text)), append(pieces, e)
	}
	p.held.Add(1)
	whole := mem.NewBuffer(&text, p) // its capacity is above the threshold
	defer whole.Free()               // its slices hold it
	at := 0
	for i, piece := range pieces {
		p.held.Add(1)
		p.message = append(p.message, whole.Slice(at, starts[i]), mem.NewBuffer(&piece, p))
		at = starts[i]
	}
	if at < len(text) {
		p.message = append(p.message, whole.Slice(at, len(text)))
	}
	return to
}
