"""Write source-stamp.json: the commit and the digest of src/cornn, and the protocol files, for a machine without git.

    python tools/stamp.py

The file is not part of the repository. Copy it with the code: results then name the commit that produced them.
"""

from cornn._source import STAMP, write_stamp

if __name__ == "__main__":
    print(STAMP, write_stamp())
