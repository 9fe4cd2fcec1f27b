package main

import (
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/integration/bench/fleet"
)

// packedPod returns how many bytes an updated pod takes once it is packed, on average, as informd
// keeps it. It is 0 if a pod of the fleet is not an object.
func packedPod() float64 {
	const pods, warm = 4000, 2000 // the first ones make the dictionary
	all, packer := fleet.NewPods(pods), object.NewPacker()
	sum := 0
	for n := range pods {
		o, err := object.FromJSON(all.Append(nil, n, 1, int64(n+1)))
		if err != nil {
			return 0
		}
		packer.Pack(o)
		if text, _, _ := o.Packed(); n >= warm {
			sum += len(text)
		}
	}
	return float64(sum) / (pods - warm)
}
