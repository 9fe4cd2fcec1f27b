// The record of the cluster.

package records

import (
	"github.com/informd/informd/engine/state/fields"
)

// Cluster identifies a cluster.
type Cluster struct {
	UID    string // of the namespace kube-system; "" if it may not be read
	Server string // the API server's address
}

// AppendCluster appends the record of the cluster that a state belongs to.
func AppendCluster(b []byte, c Cluster) []byte {
	return fields.AppendText(fields.AppendText(append(b, Version), c.UID), c.Server)
}

// ReadCluster reads what AppendCluster wrote.
func ReadCluster(b []byte) (c Cluster, err error) {
	r := fields.Reader{Left: b}
	readVersion(&r)
	c.UID, c.Server = r.Text(), r.Text()
	return c, r.End()
}
