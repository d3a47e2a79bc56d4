package kafka

import (
	"github.com/tailbox/tailbox/sink"
)

// choose names the partition of a delivery, of a topic with that many: the router's placement, else by the key, else by
// the group, with the hash of Kafka's own Java clients, so that a message lands where they would put it. What has
// neither goes round. A placement that the topic does not have gives -1.
func choose(d *sink.Delivery, partitions int, next func() uint32) int32 {
	switch {
	case partitions == 0:
		return -1
	case d.Partition != nil:
		if *d.Partition < 0 || int(*d.Partition) >= partitions {
			return -1
		}
		return *d.Partition
	case d.Key != nil:
		return int32(murmur2(d.Key) & 0x7fffffff % uint32(partitions))
	case d.Message.Group != "":
		return int32(murmur2(d.Message.GroupText()) & 0x7fffffff % uint32(partitions))
	}
	return int32(next() % uint32(partitions))
}

// murmur2 is MurmurHash2 as Kafka's Java clients have it.
func murmur2[S string | []byte](data S) uint32 {
	const (
		m    = 0x5bd1e995
		seed = 0x9747b28c
	)
	n := len(data)
	h := uint32(seed) ^ uint32(n)
	i := 0
	for ; i+4 <= n; i += 4 {
		k := uint32(data[i]) | uint32(data[i+1])<<8 | uint32(data[i+2])<<16 | uint32(data[i+3])<<24
		k *= m
		k ^= k >> 24
		h = h*m ^ k*m
	}
	switch n - i {
	case 3:
		h ^= uint32(data[i+2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[i+1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(data[i])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}
