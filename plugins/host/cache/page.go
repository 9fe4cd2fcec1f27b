package cache

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/informd/informd/plugins/handlerpb"
)

// account knows the pages that were made for a connection and are not on their way to the process yet. gRPC keeps what the
// process does not take, of which a call's own end says nothing; and forgets it when the connection ends.
type account struct {
	net.Addr
	pages places
	abort func() // ends the connection

	mu    sync.Mutex
	out   map[*page]struct{}
	ended bool
}

// accountOf is that of the connection that a call came on.
func accountOf(ctx context.Context) *account {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	a, _ := p.Addr.(*account)
	return a
}

// page waits until there is room for another one. Its owner fills it and hands it to gRPC, or calls drop. The error is a
// gRPC status.
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

// done gives a page's place back. Only the first call counts.
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

// page is one message of an answer, whose elements are the field 1. It is the pool that its memory is given back to when gRPC
// has written it out.
type page struct {
	account *account
	wire    mem.BufferSlice
	held    atomic.Int32 // pieces of memory that gRPC has not given back, and one while there come more
}

var _ mem.BufferPool = (*page)(nil)

// Get implements mem.BufferPool; it is not used.
func (p *page) Get(n int) *[]byte { b := make([]byte, n); return &b }

// Put implements mem.BufferPool.
func (p *page) Put(*[]byte) { p.release() }

func (p *page) release() {
	if p.held.Add(-1) == 0 {
		p.account.done(p)
	}
}

// drop gives up a page that gRPC did not get.
func (p *page) drop() { p.account.done(p) }

// Memory up to gRPC's threshold is not pooled, so that nobody says when it is free. Such elements are copied.
const maxCopied = 1 << 10

// fill makes the page of elements, from the first on, until it is full or there are no more; how many it took is returned. What
// is large is not copied, and must not be changed any more.
func (p *page) fill(all elements, from int) (to int) {
	p.held.Store(1)
	defer p.release()
	size := 0
	text := make([]byte, 0, 2*maxCopied)
	var starts []int    // where in text pieces stand
	var pieces [][]byte // which are those
	to = from
	for ; to < all.n && to-from < handlerpb.MaxPageElements; to++ {
		e := all.at(to)
		if to > from && size+len(e) > handlerpb.MaxPageBytes {
			break
		}
		size += len(e)
		text = protowire.AppendVarint(protowire.AppendTag(text, 1, protowire.BytesType), uint64(len(e)))
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
		p.wire = append(p.wire, whole.Slice(at, starts[i]), mem.NewBuffer(&piece, p))
		at = starts[i]
	}
	if at < len(text) {
		p.wire = append(p.wire, whole.Slice(at, len(text)))
	}
	return to
}

// codec is gRPC's codec of protobuf, which lets pages through.
type codec struct{ encoding.CodecV2 }

var protoCodec = codec{encoding.GetCodecV2("proto")}

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if p, ok := v.(*page); ok {
		return p.wire, nil
	}
	return c.CodecV2.Marshal(v)
}
