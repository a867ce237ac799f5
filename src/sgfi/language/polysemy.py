"""Seventy-two contexts of twelve words with two meanings each.

The last word is the target. Words between asterisks are its cues: they were chosen with the sentences, before anything
was measured, and are what a reader would point at to say which meaning is meant.
"""

from __future__ import annotations

SENSES: dict[str, dict[str, tuple[str, str, str]]] = {
    "bank": {
        "money": (
            "After the *loan* was approved she carried the *cash* and the *cheque* to the *savings* bank",
            "He opened an *account* to *deposit* his *wages* and pay the *mortgage* at the bank",
            "The *investors* feared *debt* so they moved their *money* out of the *credit* bank",
        ),
        "river": (
            "The *fisherman* pulled his *boat* out of the *water* and onto the *muddy* bank",
            "Tall *reeds* and *willows* grew where the *stream* had washed away the *river* bank",
            "The *otter* swam across the *river* and rested in the *grass* on the far bank",
        ),
    },
    "bat": {
        "animal": (
            "At *night* from the dark *cave* with spread *wings* there *flew* a small bat",
            "The *mammal* hung upside down in the *attic* and hunted *insects* like any other bat",
            "Using *echoes* to find *moths* in the *dark* forest the *nocturnal* creature was a bat",
        ),
        "sport": (
            "The *pitcher* threw the *ball* and the *batter* swung hard with his wooden bat",
            "In the last *inning* of the *baseball* game the *player* broke his favourite bat",
            "The *cricket* *team* bought new *gloves* and *balls* and a heavy willow bat",
        ),
    },
    "spring": {
        "season": (
            "After the long *winter* the *flowers* *bloom* and the *birds* return in early spring",
            "The *gardener* plants his *seeds* when the *snow* melts at the start of spring",
            "*March* and *April* bring warm *rain* and new *leaves* to the hills in spring",
        ),
        "coil": (
            "The *mechanic* replaced the rusty *metal* *coil* in the car with a new *steel* spring",
            "The *clock* stopped because its tiny *wound* *wire* had snapped at the main spring",
            "Inside the *mattress* the *bounce* comes from *elastic* *steel* in every single spring",
        ),
    },
    "pitch": {
        "sound": (
            "The *singer* tuned her *voice* to the *note* of the *piano* to find the pitch",
            "The *violin* sounded *flat* so the *musician* raised the *tone* to the right pitch",
            "A *soprano* hears each *melody* and can *sing* any *tone* at a high pitch",
        ),
        "field": (
            "The *football* *players* ran out of the *stadium* tunnel and onto the wet pitch",
            "The *goalkeeper* slipped on the *grass* as the *referee* walked across the pitch",
            "*Fans* of the *club* watched both *teams* warm up for the *match* on the pitch",
        ),
    },
    "crane": {
        "bird": (
            "With long *legs* and grey *feathers* in the *marsh* there stood a quiet *wading* crane",
            "The *bird* spread its *wings* above the *nest* and *flew* away like a crane",
            "In the *wetland* we saw a *heron* a *stork* and a white *feathered* crane",
        ),
        "machine": (
            "The *workers* *lifted* the *steel* beams to the top of the *tower* with a crane",
            "At the *harbour* the heavy *cargo* was *hoisted* off the *ship* by a giant crane",
            "The *construction* *site* was empty except for *concrete* and one tall *hydraulic* crane",
        ),
    },
    "seal": {
        "animal": (
            "On the cold *ice* near the *ocean* a *whiskered* *pup* lay beside the grey seal",
            "The *shark* hunts in the *sea* for *fish* and for the slow *swimming* seal",
            "*Penguins* and *whales* share the *Arctic* water with the spotted *harbor* seal",
        ),
        "stamp": (
            "The *king* signed the *document* and pressed hot *wax* with his *royal* seal",
            "The *letter* was closed with *wax* and *stamped* with the *official* state seal",
            "The *notary* checked the *signature* on the *contract* and added the *legal* seal",
        ),
    },
    "bark": {
        "tree": (
            "The *trunk* of the old *oak* was covered with *moss* and rough brown bark",
            "*Beetles* live under the *wood* of the *pine* *tree* and eat the inner bark",
            "The *forest* *deer* stripped the *branches* of every *birch* down to the bark",
        ),
        "dog": (
            "The *dog* behind the *fence* began to *growl* and gave one loud *angry* bark",
            "When the *postman* came the *puppy* wagged its *tail* and let out a bark",
            "The *hound* heard a *noise* and its *howl* soon turned into a warning bark",
        ),
    },
    "match": {
        "fire": (
            "To *light* the *candle* in the dark she struck her last dry *sulphur* match",
            "The *campfire* would not *burn* until he found some *kindling* and lit a match",
            "He reached for a *cigarette* and in the *wind* the *flame* blew out the match",
        ),
        "game": (
            "The *tennis* *champion* won the third *set* and with it the whole *final* match",
            "The *referee* blew the *whistle* and both *teams* shook hands after the *football* match",
            "*Boxing* *fans* paid a lot to see their *opponents* in the *title* match",
        ),
    },
    "palm": {
        "tree": (
            "On the *tropical* *island* a *coconut* fell onto the *beach* from the tall palm",
            "The *desert* *oasis* gave *shade* under the broad green *leaves* of a *date* palm",
            "We tied the *hammock* by the *sea* between a *banana* plant and a *coconut* palm",
        ),
        "hand": (
            "She closed her *fingers* and held the coin tight in the *sweaty* *skin* of her palm",
            "The *fortune* *teller* read the *lines* that crossed my *hand* and my open palm",
            "He raised his *arm* and slapped the *wrist* of the thief with his *flat* palm",
        ),
    },
    "mouse": {
        "animal": (
            "The hungry *cat* waited by the *hole* for the *cheese* to tempt the little mouse",
            "In the *barn* an *owl* caught a *rat* and with its *claws* a *field* mouse",
            "The *laboratory* kept a *rodent* in a *cage* and fed *grain* to the mouse",
        ),
        "device": (
            "He plugged the *keyboard* into the *computer* and moved the *cursor* with the mouse",
            "To select the *icon* on the *screen* you *click* the left *button* of the mouse",
            "The *laptop* has a *touchpad* but I play with a *wireless* *USB* mouse",
        ),
    },
    "organ": {
        "body": (
            "The *surgeon* found a *donor* and the *patient* received a new *kidney* or other organ",
            "The *liver* cleans the *blood* and is the largest *internal* *body* organ",
            "*Doctors* said the *heart* *disease* had damaged the *tissue* of the whole organ",
        ),
        "music": (
            "In the *church* the *choir* sang a *hymn* while someone played the *pipe* organ",
            "*Bach* wrote a *fugue* for the *keyboard* and the *pedals* of the old organ",
            "The *cathedral* filled with *music* from the *pipes* of the great *chapel* organ",
        ),
    },
    "current": {
        "electric": (
            "The *battery* sends through the *wire* of the *circuit* a steady *electric* current",
            "Touching the *cable* at high *voltage* he felt in his hand the *shock* of the current",
            "The *engineer* measured the *resistance* and the *amperes* and wrote down the *electrical* current",
        ),
        "water": (
            "The *swimmer* was pulled out to *sea* away from the *beach* by a strong current",
            "The *canoe* drifted down the *river* past the *rocks* and was carried by the current",
            "*Waves* and *tides* move the warm *ocean* water north in one deep current",
        ),
    },
}
