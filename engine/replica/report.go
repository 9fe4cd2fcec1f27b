// This file owns what members say of themselves to each other, over HTTP.

package replica

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/raft"
)

// report is an Info, and what else other members need to know.
type report struct {
	Info
	Peers   map[string]string `json:"peers"`             // addresses by name, as this member has them
	Servers []server          `json:"servers,omitempty"` // the cluster's, as this member knows them
	Reaches []string          `json:"reaches,omitempty"` // who has answered it lately
	HasLost bool              `json:"hasLost,omitempty"` // see Options
}

// server is a member of the cluster in raft's configuration.
type server struct {
	Name  string `json:"name"`
	ID    string `json:"id"`
	Votes bool   `json:"votes"`
}

// joining is how a new member asks the leader to take it in.
type joining struct {
	Name string `json:"name"`
	ID   string `json:"id"`
}

// joined answers it.
type joined struct {
	Cluster string `json:"cluster"`
}

// maxMessage bounds a report, in bytes.
const maxMessage = 1 << 20

// maxHeader bounds the header of a request, and of its answer, in bytes.
const maxHeader = 32 << 10

// Info returns what the member knows about itself.
func (m *Member) Info() Info {
	at := m.raft.AppliedIndex()
	if m.machine.isBusy.Load() || m.raft.Stats()["fsm_pending"] != "0" {
		at = min(at, m.machine.applied.Load()) // raft counts what it has handed over
	}
	leader, _ := m.raft.LeaderWithID()
	info := Info{
		Name: m.options.Name, ID: m.self.id, Cluster: m.self.clusterID(), Version: m.options.Version,
		Term: m.raft.CurrentTerm(), Applied: at, Last: m.raft.LastIndex(), Leader: string(leader),
		Trouble: m.trouble(),
	}
	info.IsCaughtUp, info.Newest = m.others.progress.current(time.Now())
	if m.options.Unable != nil {
		info.Unable = m.options.Unable()
	}
	if m.options.Suspects != nil {
		info.Suspects = m.options.Suspects()
	}
	info.Role = m.role(info)
	return info
}

// role returns what the member does.
func (m *Member) role(info Info) Role {
	isSilent := m.network.all.isSilent()
	own := find(m.servers(), func(s server) bool { return s.ID == info.ID })
	switch {
	case info.Cluster == "":
		return Waits
	case m.raft.State() == raft.Leader && !isSilent:
		return Leads
	case info.Leader == "" || isSilent:
		return Searches
	case own == nil || !own.Votes:
		return Learns
	}
	return Follows
}

// trouble returns why the member does not take part.
func (m *Member) trouble() string {
	switch err := m.Err(); {
	case err != nil:
		return err.Error()
	case m.disk.trouble() != "":
		return m.disk.trouble()
	case m.notes.isInstalling():
		return "it receives a snapshot"
	}
	return m.others.why()
}

// servers returns the members that raft knows.
func (m *Member) servers() []server {
	var all []server
	for _, s := range m.raft.GetConfiguration().Configuration().Servers {
		all = append(all, server{
			Name: string(s.Address), ID: string(s.ID), Votes: s.Suffrage == raft.Voter,
		})
	}
	return all
}

// find returns the first server for which is returns true, or nil.
func find(servers []server, is func(server) bool) *server {
	for i := range servers {
		if is(servers[i]) {
			return &servers[i]
		}
	}
	return nil
}

// serve answers the others until ctx ends.
func (o *others) serve(ctx context.Context) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /info", func(w http.ResponseWriter, _ *http.Request) { reply(w, o.report()) })
	mux.HandleFunc("POST /join", o.answerJoin)
	mux.HandleFunc(passedPath+"/", o.answerPassed)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: o.timing.handshake, ReadTimeout: o.timing.handshake,
		IdleTimeout: o.timing.handshake, MaxHeaderBytes: maxHeader,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, certKey{}, conn.(*connection).cert)
		},
		ErrorLog: quiet,
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	_ = server.Serve(queue{o.member.network, o.member.network.http})
	_ = server.Close()
}

// certKey is the key of a request's certificate in its context.
type certKey struct{}

// certOf returns the certificate of who sent r.
func certOf(r *http.Request) *x509.Certificate {
	return r.Context().Value(certKey{}).(*x509.Certificate)
}

// reply answers a request with what.
func reply(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(what)
}

// ask sends a request to the member name and decodes the answer into answer. It waits no longer
// than limit.
func (o *others) ask(
	ctx context.Context, limit time.Duration, name, method, path string, body, answer any,
) error {
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://member"+path, &content)
	if err != nil {
		return err
	}
	request.Close = true
	conn, err := o.member.network.dial(ctx, name, forHTTP, "")
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err = request.Write(conn); err == nil {
		err = readAnswer(conn, request, answer)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("it did not answer within %v", limit)
	}
	return err
}

// readAnswer reads the answer to request from conn.
func readAnswer(conn io.Reader, request *http.Request, answer any) error {
	response, err := http.ReadResponse(bufio.NewReader(io.LimitReader(conn, maxMessage)), request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 500))
		return fmt.Errorf("it answers %q", bytes.TrimSpace(text))
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// askAll asks all other members for their reports at the same time. The error of one that does not
// answer is in the second map.
func (o *others) askAll(ctx context.Context) (map[string]*report, map[string]error) {
	type answer struct {
		name   string
		report report
		err    error
	}
	answers := make(chan answer, len(o.names))
	for _, name := range o.names {
		go func() {
			a := answer{name: name}
			a.err = o.ask(ctx, o.timing.ask, name, http.MethodGet, "/info", nil, &a.report)
			if a.err == nil && (a.report.Name != name || !isID(a.report.ID)) {
				a.err = fmt.Errorf("at its address is the replica %q: correct the addresses",
					a.report.Name)
			}
			answers <- a
		}()
	}
	reports, errs := make(map[string]*report), make(map[string]error)
	for range o.names {
		if a := <-answers; a.err != nil {
			errs[a.name] = a.err
		} else {
			reports[a.name] = &a.report
		}
	}
	return reports, errs
}
