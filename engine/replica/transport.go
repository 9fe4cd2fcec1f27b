// This file owns how raft uses the network, and what the leader's lease is counted from.

package replica

import (
	"context"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// maxBatch bounds the entries that a leader sends a follower at a time. Each may have MaxEntry
// bytes.
const maxBatch = 8

// transport is raft's. To raft, a member's address is its name; a target is dialed as NAME/ID, so
// that a member with another id refuses the connection.
type transport struct {
	*raft.NetworkTransport
	name string

	mu       sync.Mutex // guards answered
	answered map[raft.ServerID]time.Time
}

// newTransport returns a transport over n.
func newTransport(n *network, log *slog.Logger) *transport {
	inner := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: stream{queue{n, n.raft}}, Logger: hcLogger(log, "raft-net"),
		MaxPool: 3, MaxRPCsInFlight: 1, Timeout: n.timing.rpc,
	})
	inner.TimeoutScale = 4 << 20 // a snapshot may take the timeout for each 4 MiB
	return &transport{
		NetworkTransport: inner, name: n.options.Name,
		answered: make(map[raft.ServerID]time.Time),
	}
}

// stream is the network as raft.NetworkTransport wants it.
type stream struct{ queue }

// Dial implements raft.StreamLayer.
func (s stream) Dial(target raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cut := strings.LastIndexByte(string(target), '/')
	if cut < 0 {
		cut = len(target)
	}
	return s.of.dial(ctx, string(target[:cut]), forRaft, strings.TrimPrefix(string(target[cut:]), "/"))
}

// at returns the target for the member id with a name.
func at(id raft.ServerID, name raft.ServerAddress) raft.ServerAddress {
	return name + "/" + raft.ServerAddress(id)
}

// LocalAddr implements raft.Transport.
func (t *transport) LocalAddr() raft.ServerAddress { return raft.ServerAddress(t.name) }

// EncodePeer implements raft.Transport.
func (t *transport) EncodePeer(_ raft.ServerID, name raft.ServerAddress) []byte {
	return []byte(name)
}

// AppendEntries implements raft.Transport.
func (t *transport) AppendEntries(
	id raft.ServerID, name raft.ServerAddress,
	request *raft.AppendEntriesRequest, response *raft.AppendEntriesResponse,
) error {
	began := time.Now()
	err := t.NetworkTransport.AppendEntries(id, at(id, name), request, response)
	if err == nil && response.Success && response.Term <= request.Term {
		t.mu.Lock()
		if began.After(t.answered[id]) {
			t.answered[id] = began
		}
		t.mu.Unlock()
	}
	return err
}

// RequestVote implements raft.Transport.
func (t *transport) RequestVote(
	id raft.ServerID, name raft.ServerAddress,
	request *raft.RequestVoteRequest, response *raft.RequestVoteResponse,
) error {
	return t.NetworkTransport.RequestVote(id, at(id, name), request, response)
}

// RequestPreVote implements raft.WithPreVote.
func (t *transport) RequestPreVote(
	id raft.ServerID, name raft.ServerAddress,
	request *raft.RequestPreVoteRequest, response *raft.RequestPreVoteResponse,
) error {
	return t.NetworkTransport.RequestPreVote(id, at(id, name), request, response)
}

// InstallSnapshot implements raft.Transport.
func (t *transport) InstallSnapshot(
	id raft.ServerID, name raft.ServerAddress, request *raft.InstallSnapshotRequest,
	response *raft.InstallSnapshotResponse, content io.Reader,
) error {
	return t.NetworkTransport.InstallSnapshot(id, at(id, name), request, response, content)
}

// TimeoutNow implements raft.Transport.
func (t *transport) TimeoutNow(
	id raft.ServerID, name raft.ServerAddress,
	request *raft.TimeoutNowRequest, response *raft.TimeoutNowResponse,
) error {
	return t.NetworkTransport.TimeoutNow(id, at(id, name), request, response)
}

// quorumAnswered returns when the last request began that more than half of the voters have
// answered by now, the member id included. A follower waits a heartbeat timeout from then on before
// it votes for another. It counts from the beginning of a request, as the answer may come late.
func (t *transport) quorumAnswered(config raft.Configuration, id raft.ServerID) time.Time {
	var times []time.Time
	t.mu.Lock()
	for _, s := range config.Servers {
		switch {
		case s.Suffrage != raft.Voter:
		case s.ID == id:
			times = append(times, time.Now())
		default:
			times = append(times, t.answered[s.ID])
		}
	}
	for known := range t.answered { // of members that were replaced
		if !slices.ContainsFunc(config.Servers, func(s raft.Server) bool { return s.ID == known }) {
			delete(t.answered, known)
		}
	}
	t.mu.Unlock()
	if len(times) == 0 {
		return time.Time{}
	}
	slices.SortFunc(times, func(a, b time.Time) int { return b.Compare(a) })
	return times[len(times)/2]
}
