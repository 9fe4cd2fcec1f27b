package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/integration/bench/fleet"
	"github.com/informd/informd/integration/cluster"
)

// plane is a real control plane that holds config maps of the fleet. It can be stopped and started
// again, and keeps its objects.
type plane struct {
	dir        string
	configMaps int
	*cluster.Cluster

	objects int // all config maps, including the control plane's own; set by ready
}

func (p *plane) start(ctx context.Context) (err error) {
	if p.Cluster != nil {
		return p.Restart(ctx)
	}
	if p.Cluster, err = cluster.Start(ctx, p.dir); err != nil {
		return err
	}
	if err = p.fill(ctx); err != nil {
		err = errors.Join(fmt.Errorf("fill etcd: %w", err), p.Stop())
		p.Cluster = nil
	}
	return err
}

// fill writes the config maps straight into etcd. To create them through the API server would take
// longer than all the measurements. The API server gets them from its watch of etcd and serves them
// like any others.
func (p *plane) fill(ctx context.Context) error {
	conn, err := p.etcd()
	if err != nil {
		return err
	}
	defer conn.Close()
	const batch = 100 // etcd takes 128 operations in a transaction
	objects := fleet.NewConfigMaps(p.configMaps)
	for i := 0; i < p.configMaps; i += batch {
		var txn []byte
		for n := i; n < min(i+batch, p.configMaps); n++ {
			txn = appendPut(txn, configMapKey(objects, n), configMapValue(objects, n, 0))
		}
		var response []byte
		if err := conn.Invoke(ctx, "/etcdserverpb.KV/Txn", txn, &response); err != nil {
			return err
		}
	}
	return nil
}

// etcd connects to the control plane's etcd. Messages are passed as they are encoded.
func (p *plane) etcd() (*grpc.ClientConn, error) {
	return grpc.NewClient("unix:"+filepath.Join(p.dir, "etcd.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(asItIs{})))
}

// configMapKey returns the key in etcd of config map n.
func configMapKey(objects *fleet.ConfigMaps, n int) string {
	namespace, name, _ := objects.Identity(n)
	return "/registry/configmaps/" + namespace + "/" + name
}

// configMapValue returns config map n as etcd stores it, after the given number of updates.
func configMapValue(objects *fleet.ConfigMaps, n, updates int) []byte {
	value := []byte(`{"kind":"ConfigMap","apiVersion":"v1",`)
	return append(value, objects.Append(nil, n, updates, 0)[1:]...)
}

// put writes one key.
func put(ctx context.Context, etcd *grpc.ClientConn, key string, value []byte) error {
	var response []byte
	return etcd.Invoke(ctx, "/etcdserverpb.KV/Put", putRequest(key, value), &response)
}

// putRequest returns a PutRequest of etcd's rpc.proto.
func putRequest(key string, value []byte) (put []byte) {
	put = protowire.AppendTag(put, 1, protowire.BytesType)
	put = protowire.AppendString(put, key)
	put = protowire.AppendTag(put, 2, protowire.BytesType)
	return protowire.AppendBytes(put, value)
}

// appendPut appends an operation to a TxnRequest of etcd's rpc.proto: a RequestOp with a
// PutRequest.
func appendPut(txn []byte, key string, value []byte) []byte {
	op := protowire.AppendTag(nil, 2, protowire.BytesType) // request_put
	op = protowire.AppendBytes(op, putRequest(key, value))
	txn = protowire.AppendTag(txn, 2, protowire.BytesType) // success
	return protowire.AppendBytes(txn, op)
}

// asItIs is a codec for messages that are already encoded.
type asItIs struct{}

var _ encoding.CodecV2 = asItIs{}

func (asItIs) Name() string { return "proto" }

func (asItIs) Marshal(message any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(message.([]byte))}, nil
}

func (asItIs) Unmarshal(data mem.BufferSlice, message any) error {
	*message.(*[]byte) = data.Materialize()
	return nil
}

// ready waits until the API server has all config maps in its own cache, and counts them.
func (p *plane) ready(ctx context.Context) error {
	for start := time.Now(); ; {
		body, err := p.get(ctx, "/api/v1/configmaps?limit=1")
		if err != nil {
			return err
		}
		var list struct {
			Metadata struct{ RemainingItemCount int }
			Items    []struct{}
		}
		if err := json.Unmarshal(body, &list); err != nil {
			return err
		}
		p.objects = len(list.Items) + list.Metadata.RemainingItemCount
		if p.objects >= p.configMaps {
			return nil
		}
		if time.Since(start) > patience {
			return fmt.Errorf("the API server has %d config maps, of %d", p.objects, p.configMaps)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// sent returns how many config maps the API server has sent since its start, in lists and at the
// beginning of watches.
func (p *plane) sent(ctx context.Context) (n int, err error) {
	body, err := p.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(body)) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		name, labels, _ := strings.Cut(series, "{")
		if slices.Contains(sentMetrics, name) && strings.Contains(labels, `resource="configmaps"`) {
			f, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, fmt.Errorf("a metric of the API server: %w", err)
			}
			n += int(f)
		}
	}
	return n, nil
}

var sentMetrics = []string{
	"apiserver_cache_list_returned_objects_total",
	"apiserver_storage_list_returned_objects_total",
	"apiserver_init_events_total",
}

func (p *plane) get(ctx context.Context, path string) (body []byte, err error) {
	cfg := p.RESTConfig()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, cfg.Host+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", path, resp.Status)
	}
	return io.ReadAll(resp.Body)
}
