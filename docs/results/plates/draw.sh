#!/bin/sh
# The plates of this folder: maps with the paper's calibration, pictures from pip packages. From the root of the
# repository, with sgfi installed and SGFI_ASSETS naming the folder with weights/, images/ and text/. Pictures are kept
# as JPEG.
set -e
here=docs/results/plates
networks=docs/results/experiments/setups/networks.py
photos=$SGFI_ASSETS/images/imagenet_val
work=${1:-plates-work}
fit="--limit 512 --batch-size 32 --force --quiet"
python $here/photographs.py "$work/photos"

small="$networks:resnet18_to_layer3 --size 96 --target layer3.1.add"
sgfi calibrate $small --data "$photos" --out "$work/full" $fit
sgfi calibrate $small --data "$photos" --partition shared --out "$work/shared" $fit
for operator in gamma diagonal diagonal+rank8; do
    sgfi calibrate $small --data "$photos" --operator $operator --out "$work/$operator" $fit
done
draw="--model $networks:resnet18_to_layer3 --force"
sgfi atlas "$work/full" "$work/photos/many" $draw --kind images --limit 24 --out $here/images.png
sgfi atlas "$work/full" "$work/photos/three" $draw --kind depth --count 4 --out $here/depths.png
sgfi atlas "$work/full" "$work/photos/pair" $draw --kind swap --out $here/swap.png
sgfi atlas "$work/full" "$work/photos/pair" $draw --kind interpolation --out $here/interpolation.png
sgfi atlas "$work/gamma" "$work/photos/three" $draw --kind families --beside "$work/diagonal" \
    --beside "$work/diagonal+rank8" --beside "$work/shared" --beside "$work/full" --out $here/operators.png

sgfi calibrate $networks:deit_tiny_112 --size 112 --data "$photos" --out "$work/deit" $fit
sgfi coordinates "$work/deit" "$work/photos/pair" --model $networks:deit_tiny_112 --count 2 --no-correct \
    --depth blocks.0 --depth blocks.6 --depth norm --show "$work/photos/pair/chelsea.png" --out "$work/coordinates" --force
cp "$work/coordinates/queries.png" $here/queries.png
sgfi atlas "$work/deit" "$work/photos/pair" --model $networks:deit_tiny_112 --kind swap --out $here/swap-deit.png --force

sgfi calibrate pip:smollm2_135m --size 16 --data "$SGFI_ASSETS/text/enwiki_extract_8MB.txt" --partition shared \
    --target lm.model.layers.5.self_attn.o_proj --boundaries lm.model.layers.1,lm.model.layers.3 --out "$work/smollm2" $fit
sgfi contexts "$work/smollm2" --out "$work/contexts.png" --force
cp "$work/contexts.png" $here/contexts.png
python - $here images depths operators swap interpolation swap-deit queries <<'END'
import sys
from PIL import Image
for name in sys.argv[2:]:
    with Image.open(f"{sys.argv[1]}/{name}.png") as picture:
        picture.convert("RGB").save(f"{sys.argv[1]}/{name}.jpg", quality=85)
END
rm $here/images.png $here/depths.png $here/operators.png $here/swap.png $here/interpolation.png $here/swap-deit.png $here/queries.png
