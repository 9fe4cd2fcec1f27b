// Package install tests what users install as they get it: the archives of a release, the container
// image, and the manifests in deploy/. It runs the image without a container engine, in namespaces
// of its own, as the kubelet would run the Pod.
package install

import (
	"os"
	"testing"

	"github.com/informd/informd/integration/harness"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == roleContainer {
		beContainer(os.Args[2], os.Args[3:])
	}
	harness.Main(m, nil)
}
